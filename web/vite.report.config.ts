import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** Puts the page's script and styles into its one file, so that it opens without a network. */
function oneFile(): Plugin {
  return {
    name: 'one-file',
    apply: 'build',
    enforce: 'post',
    generateBundle: {
      // After Vite has put its last words into the script.
      order: 'post',
      handler(_, bundle) {
        const page = bundle['report.html'];
        if (page?.type !== 'asset') throw new Error('the build has report.html');
        let html = String(page.source);
        for (const [name, file] of Object.entries(bundle)) {
          if (file === page) continue;
          const tag = new RegExp(`[ \\t]*<(script|link)[^>]*/${name}"[^>]*>(</script>)?\\n?`);
          if (!tag.test(html)) throw new Error(`${name} is not named in report.html`);
          html = html.replace(tag, '');
          // Functions, since a text's "$&" would be taken for a pattern.
          if (file.type === 'chunk') {
            const code = file.code.replaceAll('</script', '<\\/script');
            html = html.replace('</body>', () => `<script type="module">${code}</script>\n</body>`);
          } else {
            html = html.replace('</head>', () => `<style>${String(file.source)}</style>\n</head>`);
          }
          delete bundle[name];
        }
        page.source = html;
      },
    },
  };
}

export default defineConfig({
  publicDir: false,
  plugins: [svelte(), oneFile()],
  build: {
    outDir: 'dist/report',
    emptyOutDir: true,
    target: 'es2023',
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      input: 'report.html',
      output: { codeSplitting: false },
    },
  },
});
