// A question is searched by its content words. The theme looks for every word as a beginning, so that
// "how do I" finds all pages with a word that begins with "i".
(() => {
  const without = new Set(
    ("a about all an and any are as at be by can do does for from has have how i if in is it its " +
      "later me my now of on one or own page so than that the them then there these they this to " +
      "want was what when where which who why with without you your").split(" "),
  );
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message && message.type === 2 && typeof message.data === "string") {
      const words = message.data.split(/\s+/).map((word) => word.replace(/^[("']+|[?!.,;:)"']+$/g, ""));
      const kept = words.filter((word) => word && !without.has(word.toLowerCase()));
      // The index has stems, "passphras", which begin with no whole word: a weight asks for the stem too.
      const asked = kept.map((word) => `${word} ${word}^1`);
      if (kept.length) message = { ...message, data: asked.join(" ") };
    }
    return post.call(this, message, ...rest);
  };
})();
