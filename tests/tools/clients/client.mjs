// Keeps keys or objects with nats.js: node client.mjs URL bucket|objects
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { connect, headers } from "@nats-io/transport-node";

async function bucket(nc) {
  const kv = await new Kvm(nc).create("B", {
    description: "a bucket", history: 5, ttl: 3_600_000, markerTTL: 60_000, metadata: { owner: "js" },
  });
  await kv.put("a", "one");
  await kv.put("a", "two");
  const revision = await kv.create("b.c", "created");
  await kv.update("b.c", "updated", revision);
  await kv.create("lock", "mine", "90s");
  await kv.put("gone", "x");
  await kv.delete("gone");
  await kv.create("back", "first");
  await kv.delete("back");
  await kv.create("back", "again");
  await kv.put("purged", "x");
  await kv.purge("purged", { ttl: "120s" });
  await kv.put("old", "x");
  await kv.purge("old");
  await kv.put("empty", "");
  await kv.put("x/y=z_1-2", new Uint8Array([0, 255]));
  let keys = 0;
  for await (const _ of await kv.keys()) keys++;
  let revisions = 0;
  for await (const _ of await kv.history({ key: "a" })) revisions++;
  console.log(keys, revisions, (await kv.get("b.c")).revision);
  const watch = await kv.watch();
  for await (const entry of watch) if (entry.delta === 0) break;
}

function source(text) {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      controller.close();
    },
  });
}

async function objects(nc) {
  const store = await new Objm(nc).create("O", { description: "a store", metadata: { owner: "js" } });
  const fields = headers();
  fields.append("X-One", "1");
  fields.append("X-One", "2");
  await store.put({
    name: "dir/ä b.txt", description: "text", headers: fields, metadata: { kind: "test" },
    options: { max_chunk_size: 10 },
  }, source("four chunks and a rest of an object"));
  await store.put({ name: "replaced" }, source("old"));
  const info = await store.put({ name: "replaced" }, source("new"));
  await store.put({ name: "empty" }, source(""));
  await store.put({ name: "deleted" }, source("x"));
  await store.delete("deleted");
  await store.link("link", info);
  await store.linkStore("bucket", store);
  await store.put({ name: "before" }, source("x"));
  await store.update("before", { name: "after", description: "renamed" });
  console.log(new TextDecoder().decode(await store.getBlob("link")), (await store.list()).length);
}

const [url, what] = process.argv.slice(2);
const nc = await connect({ servers: url, name: "js" });
await (what === "bucket" ? bucket : objects)(nc);
await nc.drain();
