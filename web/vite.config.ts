import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** Writes a `.gz` beside each text file, so that the binary need not compress while serving. */
function precompress(): Plugin {
  let outDir = '';
  return {
    name: 'precompress',
    apply: 'build',
    configResolved(config) {
      outDir = config.build.outDir;
    },
    async closeBundle() {
      const files = await readdir(outDir, { recursive: true });
      for (const file of files.filter((name) => /\.(html|js|css|svg)$/.test(name))) {
        const body = await readFile(join(outDir, file));
        const compressed = await promisify(gzip)(body, { level: 9 });
        if (compressed.length < body.length * 0.9) {
          await writeFile(join(outDir, `${file}.gz`), compressed);
        }
      }
    },
  };
}

export default defineConfig({
  plugins: [svelte(), precompress()],
  build: {
    outDir: 'dist/pages',
    emptyOutDir: true,
    target: 'es2023',
    // The content security policy allows no data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // ECharts, which only pages with a chart load.
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: { '/api': process.env.LM_WARDEN_URL ?? 'http://127.0.0.1:8484' },
  },
});
