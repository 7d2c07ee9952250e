// Builds the web page: bundles of src/entries and the files of pages go to web/dist, which is committed. With
// --tests it bundles test/*.test.ts to .tests instead. The same sources give the same bytes.
import { build } from "esbuild";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const inFolder = async (name, ending) =>
  (await readdir(join(here, name))).filter((f) => f.endsWith(ending)).sort().map((f) => join(here, name, f));

const common = { bundle: true, format: "esm", target: "es2022", logLevel: "warning", absWorkingDir: here };

if (process.argv.includes("--tests")) {
  await rm(join(here, ".tests"), { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: await inFolder("test", ".test.ts"),
    outdir: ".tests",
    platform: "node",
    outExtension: { ".js": ".mjs" },
  });
} else {
  const dist = join(here, "dist");
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist, { recursive: true });
  const { metafile } = await build({
    ...common,
    entryPoints: await inFolder("src/entries", ".ts"),
    outdir: dist,
    minify: true,
    splitting: true,
    chunkNames: "[name]-[hash]",
    legalComments: "none", // licenses.txt has them
    metafile: true,
  });
  await cp(join(here, "pages"), dist, { recursive: true });
  await writeFile(join(dist, "licenses.txt"), await licenses(Object.keys(metafile.inputs)));
}

/** licenses returns the licences of the packages that are in the bundles. */
async function licenses(inputs) {
  const names = new Set(inputs.map((f) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(f)?.[1]).filter(Boolean));
  const texts = await Promise.all([...names].sort().map(async (name) => {
    const folder = join(here, "node_modules", name);
    const file = (await readdir(folder)).find((f) => /^licen[cs]e/i.test(f));
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const text = file ? await readFile(join(folder, file), "utf8") : license;
    return `${name} ${version}\n\n${text.trim()}\n`;
  }));
  return texts.join("\n" + "-".repeat(80) + "\n\n") || "The scripts contain no packages of others.\n";
}
