// Vite 8 fails on an older Node with an error about a missing function. Say what is wrong instead.
// Plain old syntax: this file has to run where the rest cannot.
var required = [20, 19];
var found = process.versions.node.split('.').map(Number);
var old = found[0] < required[0] || (found[0] === required[0] && found[1] < required[1]);
if (old) {
  console.error(
    'The pages are built with Vite 8, which needs Node.js ' +
      required.join('.') +
      ' or later; this is Node.js ' +
      process.versions.node +
      '.\nInstall a newer Node.js, or build without the pages: cargo build works as it is.',
  );
  process.exit(1);
}
