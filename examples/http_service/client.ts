// The generated types with openapi-fetch: node client.js URL TOKEN_OF_ALICE TOKEN_OF_BOB
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

const [url, alice, bob] = process.argv.slice(2) as [string, string, string];
const of = (token: string) =>
  createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
const a = of(alice);

const made = await a.POST("/v1/facts", { body: { concept: "home-city", value: "Seoul" } });
if (!made.data) throw new Error(made.error.title);
const fact: components["schemas"]["FactOut"] = made.data;
const path = { fact_id: fact.id };
const header = { "If-Match": `"${fact.etag}"` };
const changed = await a.PATCH("/v1/facts/{fact_id}", { params: { path, header }, body: { value: "Busan" } });
const stale = await a.PATCH("/v1/facts/{fact_id}", { params: { path, header }, body: { value: "Jeju" } });
const prompt = await a.GET("/v1/prompt", { params: { query: { question: "Which city?" } } });
const other = await of(bob).GET("/v1/facts");
console.log(changed.data?.values, stale.error?.status, prompt.data?.includes("Busan"), other.data?.total);

const events = await fetch(`${url}/v1/changes`, { headers: { Authorization: `Bearer ${alice}` } });
const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
let seen = (await reader.read()).value ?? "";
await a.DELETE("/v1/facts/{fact_id}", { params: { path } });
while (!/data: .*\n/.test(seen)) seen += (await reader.read()).value ?? "";
console.log(JSON.parse(/data: (.*)/.exec(seen)![1]!).kind);
process.exit(0);
