import svelte from 'eslint-plugin-svelte';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

export default ts.config(
  { ignores: ['dist', 'node_modules', 'src/api/schema.ts'] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  { rules: { eqeqeq: ['error', 'always', { null: 'ignore' }] } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: {
      parserOptions: { parser: ts.parser, extraFileExtensions: ['.svelte'], svelteConfig },
    },
    rules: {
      // Written for SvelteKit's router; these pages have their own.
      'svelte/no-navigation-without-resolve': 'off',
    },
  },
  {
    files: ['**/*.cjs'],
    rules: { 'no-var': 'off', '@typescript-eslint/no-require-imports': 'off' },
  },
);
