import { defineConfig } from "vitest/config";

// The page is served under strict headers: scripts and styles only as files of its own, nothing inline. Relative addresses
// are resolved against the <base> of index.html, so that deep paths and a path prefix put there by a server both work.
// Of marked only what splits a text into tokens is used. What makes markup stands behind it, in the same file, and uses itself, so
// that the bundler cannot leave it out: it is cut off here. What is left has rules for what is never asked for; these go when the
// bundler knows the options' values, and that making an expression out of pieces has no other effect. Another version of marked may
// need another cut, and then says so.
const values = { pedantic: "false", breaks: "false", gfm: "true", extensions: "null", silent: "false" };
const lexerOnly = {
  name: "lexer-only",
  transform(code: string, id: string) {
    if (!id.includes("/node_modules/marked/")) return null;
    const markup = code.search(/[;,](?:var )?\w+=class\{options;parser;/);
    const name = /export\{.*?(\w+) as Lexer\b/.exec(code)?.[1];
    const pieces = /function (\w+)\(\w+,\w+=""\)\{let \w+=typeof \w+=="string"/.exec(code)?.[1];
    if (markup < 0 || name === undefined || pieces === undefined) throw new Error("this version of marked is made in another way: see vite.config.ts");
    let lexer = code.slice(0, markup);
    for (const [option, value] of Object.entries(values)) lexer = lexer.replaceAll(`this.options.${option}`, value);
    lexer = lexer.replace(/,(?:breaks:\w+,)?pedantic:\w+\}/g, "}").replace(new RegExp(`([=:,(;])${pieces}\\(`, "g"), `$1/*#__PURE__*/${pieces}(`);
    return { code: `${lexer};export{${name} as Lexer};`, map: null };
  },
};

export default defineConfig({
  plugins: [lexerOnly],
  base: "./",
  // A comment of a dependency's licence is kept, so that the built file says whose code it holds.
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    // The styles are one file of the first page; a part that is fetched later has none of its own to wait for.
    cssCodeSplit: false,
    // What most parts use is one file: every further one has names to import and to export, and is fetched by itself.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 5 }] } } },
    reportCompressedSize: false,
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
