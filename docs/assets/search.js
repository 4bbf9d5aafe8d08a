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
      // The index has stems, "telemetri": the beginning of a word must not contain its last "y".
      const begun = kept.map((word) => word.replace(/([^aeiou])y$/i, "$1"));
      if (kept.length) message = { ...message, data: begun.join(" ") };
    }
    return post.call(this, message, ...rest);
  };
})();
