// One journey, run by run.py: node journey.mjs SDK ROAD. Prints one line per step as JSON and exits 0 when all hold.
//   SDK   1 = @modelcontextprotocol/sdk 1.29.0, 2 = @modelcontextprotocol/client 2.x as it comes, 2-auto = negotiating
//   ROAD  stdio = through `bascule bridge`; http = straight to the controller
import assert from "node:assert/strict";

const [sdk, road] = process.argv.slice(2);
const { BASCULE_URL: url, BASCULE_TOKEN: token, BASCULE_PYTHON: python } = process.env;

const v1 = sdk === "1";
const { Client } = await import(v1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const options = sdk === "2-auto" || road === "http" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "journey", version: "1.0.0" }, options);

async function transport() {
  if (road === "http") {
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
  }
  const { StdioClientTransport } = await import(
    v1 ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio"
  );
  return new StdioClientTransport({
    command: python,
    args: ["-m", "bascule", "bridge", "--url", url],
    env: { BASCULE_TOKEN: token, PATH: process.env.PATH },
    stderr: "inherit",
  });
}

const call = (name, args) => client.callTool({ name, arguments: args });
const text = (result) => result.content.map((block) => block.text ?? "").join("\n");

const steps = {
  "connects": async () => {
    // SDK 1 keeps the negotiated revision to itself, but tells its transport.
    let told;
    const way = await transport();
    const tell = way.setProtocolVersion?.bind(way);
    way.setProtocolVersion = (version) => { told = version; tell?.(version); };
    await client.connect(way);
    const modern = road === "http" || sdk === "2-auto";
    assert.equal(client.getNegotiatedProtocolVersion?.() ?? told, modern ? "2026-07-28" : "2025-11-25");
  },
  "lists the allowed tools and no other": async () => {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    for (const name of ["device_info", "device_status", "system_which", "say", "touch"]) assert.ok(names.includes(name), name);
    assert.ok(!names.includes("secret"));
  },
  "reads what machine it is, structured and as text": async () => {
    const result = await call("device_info", {});
    assert.ok(!result.isError);
    assert.ok(result.structuredContent.hostname);
    assert.deepEqual(JSON.parse(text(result)), result.structuredContent);
  },
  "runs a declared command by either spelling of its name": async () => {
    for (const name of ["say", "device.info"]) assert.ok(!(await call(name, name === "say" ? { text: "-ü \u2028" } : {})).isError);
    assert.equal((await call("say", { text: "-ü \u2028" })).structuredContent.stdout, "-ü \u2028");
  },
  "gets words for an unknown tool, as a result": async () => {
    const result = await call("secret", {});
    assert.equal(result.isError, true);
    assert.equal(text(result), "Unknown tool: secret");
  },
  "gets pointer and rule for arguments that do not fit": async () => {
    const result = await call("nap", { seconds: "ten" });
    assert.equal(result.isError, true);
    assert.match(text(result), /\/seconds: .*rule: type/);
  },
  "is refused an unconfirmed change, sees its plan, makes it": async () => {
    const name = `n${"abcdefgh"[Math.floor(Math.random() * 8)]}${sdk.replace(/[^a-z]/g, "")}${road}`;
    assert.equal((await call("touch", { name })).isError, true);
    const plan = await call("touch", { name, dry_run: true });
    assert.ok(!plan.isError);
    assert.equal(plan.structuredContent.applied, false);
    assert.ok(!(await call("touch", { name, confirm: true })).isError);
  },
  "must wait for a person to destroy": async () => {
    assert.equal((await call("wipe", { name: "x" })).isError, true);
  },
  "cancels a long call and goes on": async () => {
    const stop = new AbortController();
    const pending = client.callTool({ name: "nap", arguments: { seconds: 300 } }, ...(v1 ? [undefined] : []), { signal: stop.signal });
    setTimeout(() => stop.abort(), 300);
    await assert.rejects(pending);
    assert.ok(!(await call("say", { text: "still here" })).isError);
  },
  "many calls at once get each its own answer": async () => {
    const texts = Array.from({ length: 12 }, (_, number) => `call ${number}`);
    const answers = await Promise.all(texts.map((text) => call("say", { text })));
    assert.deepEqual(answers.map((answer) => answer.structuredContent.stdout), texts);
  },
  "leaves": async () => client.close(),
};

let failed = 0;
for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    console.log(JSON.stringify({ step: name, ok: true }));
  } catch (error) {
    failed += 1;
    console.log(JSON.stringify({ step: name, ok: false, error: String(error?.stack ?? error).slice(0, 2000) }));
    if (name === "connects") break;
  }
}
process.exit(failed ? 1 : 0);
