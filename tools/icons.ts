import { readFileSync } from 'node:fs';
import { findChromium, launchBrowser } from '../test/browser/chromium.ts';

/** Draws the icons of the console again: `npx node tools/icons.ts` after a change of `icon.svg`. */
const browser = await launchBrowser(findChromium() ?? '');
const drawing = readFileSync('src/console/icon.svg', 'utf8');
for (const side of [192, 512]) {
  const page = await browser.newPage({ viewport: { width: side, height: side } });
  await page.setContent(`<style>body { margin: 0 } svg { display: block }</style>${drawing}`);
  await page.screenshot({ path: `src/console/icon-${side}.png`, omitBackground: true });
}
await browser.close();
