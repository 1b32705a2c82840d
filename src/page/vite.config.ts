import { join } from 'node:path';
import { defineConfig } from 'vite';

/** The server reads the files of dist/page and serves nothing else of them. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/',
  build: {
    outDir: '../../dist/page',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    cssCodeSplit: false,
    license: { fileName: 'licenses.md' },
    rollupOptions: {
      input: { page: join(import.meta.dirname, 'index.html'), docs: join(import.meta.dirname, 'docs.html') },
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
      },
    },
  },
  logLevel: 'warn',
});
