import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { licencesPlugin } from "./licences.ts";

/** The daemon that `npm run dev` passes requests of the API to. */
const daemon = process.env.PENSTOCK_URL ?? "https://127.0.0.1:7443";

const proxy = {
  "/api": {
    target: daemon,
    secure: false,
    changeOrigin: true,
    // A daemon checks that a request comes from its own page: here, that of Vite is it.
    headers: { origin: daemon, "sec-fetch-site": "same-origin" },
  },
};

export default defineConfig({
  plugins: [react(), licencesPlugin()],
  // Names of files are relative, so that a proxy may serve the page below a path (`src/base.ts`).
  base: "./",
  build: {
    target: "es2022",
    // Everything is a file of its own: the policy of the page allows no data in its code.
    assetsInlineLimit: 0,
    // One style sheet: Vite never loads that of a page again which has failed once.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The bounds of what is loaded first, and of all, are in xtask.
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      output: {
        // What the first load needs is two files: libraries, which change seldom, so that a browser
        // keeps them over many versions of the page, and the frame. Each page is a file of its own,
        // and what pages share is in few files, so that none is loaded for a line of code.
        codeSplitting: {
          groups: [
            { name: "vendor", test: /node_modules/, tags: ["$initial"], priority: 3 },
            { name: "frame", tags: ["$initial"], priority: 2 },
            {
              name: "shared",
              minShareCount: 2,
              entriesAware: true,
              entriesAwareMergeThreshold: 20_000,
              priority: 1,
            },
          ],
        },
        entryFileNames: "assets/[name]-[hash].js",
        // A shared file has the names of all pages that use it, behind the first `~`.
        chunkFileNames: ({ name }) => `assets/${name.split("~")[0]}-[hash].js`,
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: { proxy },
  preview: { proxy },
  test: { include: ["src/**/*.test.ts"] },
});
