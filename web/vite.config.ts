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
  build: {
    target: "es2022",
    // Everything is a file of its own: the policy of the page allows no data in its code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The libraries are one file of 160 kB, compressed; the bound of the archive is in xtask.
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      output: {
        // Libraries change seldom: a browser keeps them over many versions of the page.
        codeSplitting: { groups: [{ name: "vendor", test: /node_modules/ }] },
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: { proxy },
  preview: { proxy },
  test: { include: ["src/**/*.test.ts"] },
});
