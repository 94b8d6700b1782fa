// A picture of a report's charts, for README: `node test/report-picture.js REPORT.html PICTURE.png`.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch, noBrowser } from './support/browser.js';

const [report, picture] = process.argv.slice(2);
if (noBrowser || !report || !picture) {
  console.error(noBrowser ?? 'usage: node test/report-picture.js REPORT.html PICTURE.png');
  process.exit(2);
}
const browser = await launch();
const page = await browser.newPage({
  viewport: { width: 1120, height: 1000 },
  colorScheme: 'light',
  deviceScaleFactor: 1.5,
});
await page.goto(pathToFileURL(resolve(report)).href);
// The charts: everything above the tables.
const tables = page.getByRole('heading', { name: 'All figures' });
await page.locator('canvas').last().waitFor();
const [first, end] = await Promise.all([
  page.getByRole('heading', { name: 'Time to the first byte' }).boundingBox(),
  tables.boundingBox(),
]);
if (!first || !end) throw new Error('the report has charts and tables');
await page.screenshot({
  path: picture,
  fullPage: true,
  clip: { x: 0, y: first.y - 16, width: 1120, height: end.y - first.y - 12 },
});
await browser.close();
