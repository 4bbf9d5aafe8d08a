// The TypeScript SDK's client: node mcp_client.cjs NODE_MODULES COMMAND [ARGUMENT ...]
// It uses all that the server offers, and prints what it got as JSON.
const { createRequire } = require("node:module");
const path = require("node:path");

const [modules, command, ...args] = process.argv.slice(2);
const load = createRequire(path.join(path.resolve(modules), "client.cjs"));
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { ResourceUpdatedNotificationSchema } = load("@modelcontextprotocol/sdk/types.js");

async function main() {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StdioClientTransport({ command, args }));
  const updated = new Promise((resolve) =>
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (each) => resolve(each.params.uri)),
  );
  await client.subscribeResource({ uri: "memory://facts" });
  const tools = (await client.listTools()).tools; // the SDK checks answers by their schemas from here on
  const call = (name, given) => client.callTool({ name, arguments: given });
  const saved = await call("memory_save", { concept: "editor", value: "vim" });
  const uri = await updated;
  const recalled = await call("memory_recall", { query: "editor" });
  const listed = await call("memory_list_concepts", {});
  const refused = await call("memory_recall", { query: "editor", user: "bob" });
  const templates = (await client.listResourceTemplates()).resourceTemplates;
  const concept = await client.readResource({ uri: "memory://facts/editor" });
  const completed = await client.complete({
    ref: { type: "ref/resource", uri: templates[0].uriTemplate },
    argument: { name: "concept", value: "ed" },
  });
  const prompts = (await client.listPrompts()).prompts;
  const prompt = await client.getPrompt({ name: "what-do-you-know-about-me" });
  const forgotten = await call("memory_forget", { concept: "editor" });
  console.log(
    JSON.stringify({
      version: client.getServerVersion(),
      titles: tools.map((each) => each.title),
      saved: saved.structuredContent,
      uri,
      recalled: recalled.structuredContent.facts[0].values,
      listed: listed.structuredContent.concepts[0].values,
      refused: refused.content[0].text,
      concept: JSON.parse(concept.contents[0].text).facts[0].values,
      completed: completed.completion.values,
      prompts: prompts.map((each) => each.name),
      prompt: prompt.messages[0].content.text.includes('"vim"'),
      forgotten: forgotten.structuredContent,
    }),
  );
  await client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
