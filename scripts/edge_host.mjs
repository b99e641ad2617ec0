// Runs the staged Worker in workerd with local D1 and R2. What to run comes as one JSON object in the environment; the
// process ends, with workerd, when its standard input closes.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { Miniflare, convertV4MiniflareOptions } from "miniflare";

const asked = JSON.parse(process.env.CONTEXTFUL_EDGE);

const files = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith(".pyc"))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();

const kind = (name) => (name.endsWith(".py") ? "PythonModule" : /\.m?js$/.test(name) ? "ESModule" : "Data");

const module = (folder, name, under = "") => ({
  type: kind(name),
  path: under + name,
  contents: readFileSync(join(folder, name)),
});

const own = files(asked.stage).filter((name) => name !== "entry.py");
const vendored = files(asked.vendored);

const host = new Miniflare(
  convertV4MiniflareOptions({
    name: "contextful",
    rootPath: asked.stage,
    host: "127.0.0.1",
    port: asked.port,
    cf: false,
    telemetry: { enabled: false },
    modules: [
      module(asked.stage, "entry.py"),
      ...own.map((name) => module(asked.stage, name)),
      ...vendored.map((name) => module(asked.vendored, name, "python_modules/")),
    ],
    compatibilityDate: asked.date,
    compatibilityFlags: ["python_workers", "python_workers_development", "experimental"],
    bindings: asked.bindings,
    d1Databases: { DB: asked.project },
    r2Buckets: { BUCKET: asked.project },
    durableObjects: asked.objects,
    resourcePersistencePath: join(asked.state, "store"),
    unsafeDirectSockets: [{ host: "127.0.0.1", port: asked.privatePort, entrypoint: "Outbound" }],
  }),
);

const end = async () => {
  await host.dispose();
  process.exit(0);
};
process.stdin.on("end", end).on("error", end).resume();

await host.ready;
console.log("up");
