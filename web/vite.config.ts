import { defineConfig } from "vitest/config";

// The page is served under strict headers: scripts and styles only as files of its own, nothing inline. Relative addresses
// are resolved against the <base> of index.html, so that deep paths and a path prefix put there by a server both work.
export default defineConfig({
  base: "./",
  // A comment of a dependency's licence is kept, so that the built file says whose code it holds.
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
