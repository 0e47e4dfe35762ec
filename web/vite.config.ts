import { defineConfig } from "vitest/config";

// The page is served under strict headers: scripts and styles only as files of its own, nothing inline. Relative addresses
// are resolved against the <base> of index.html, so that deep paths and a path prefix put there by a server both work.
// Of marked only what splits a text into tokens is used. What makes markup stands behind it, in the same file, and uses itself, so
// that the bundler cannot leave it out: it is cut off here. Another version of marked may need another cut, and then says so.
const lexerOnly = {
  name: "lexer-only",
  transform(code: string, id: string) {
    if (!id.includes("/node_modules/marked/")) return null;
    const markup = code.search(/[;,](?:var )?\w+=class\{options;parser;/);
    const name = /export\{.*?(\w+) as Lexer\b/.exec(code)?.[1];
    if (markup < 0 || name === undefined) throw new Error("this version of marked is made in another way: see vite.config.ts");
    // Markdown as it was before there were standards is not asked for either.
    const lexer = code.slice(0, markup).replaceAll("this.options.pedantic", "false").replace(/,pedantic:\w+\}/g, "}");
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
    reportCompressedSize: false,
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
