import type { Page } from 'playwright-core';

/** Functions that run inside the page. They are texts, since they are not part of this program. */

/**
 * The text of the first element, once it is so, or as it is after some seconds. The page looks when
 * it changes: a poll from outside takes much of the browser.
 */
export async function textOnce(
  page: Page,
  selector: string,
  what: string | RegExp,
): Promise<string> {
  const hung = Promise.withResolvers<never>();
  const bound = setTimeout(() => hung.reject(new Error('the page hangs')), HUNG_MS);
  const test = typeof what === 'string' ? `said === ${JSON.stringify(what)}` : `${what}.test(said)`;
  const seen = page.evaluate<string>(`new Promise((resolve) => {
    let said = '';
    const end = () => { observer.disconnect(); clearTimeout(timer); resolve(said); };
    const look = () => {
      const node = document.querySelector(${JSON.stringify(selector)});
      said = node === null ? '' : node.textContent;
      if (node !== null && ${test}) end();
    };
    const observer = new MutationObserver(look);
    const timer = setTimeout(end, 5000);
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    look();
  })`);
  return Promise.race([seen, hung.promise]).finally(() => clearTimeout(bound));
}

/** A page whose scripts answer nothing for so long hangs. */
const HUNG_MS = 60_000;

/** Texts below the contrast of WCAG AA, with their contrast. */
export function unreadable(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return { r, g, b, a }; };
    const light = ({ r, g, b }) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => { for (let at = node; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour.a === 1) return colour; } return { r: 255, g: 255, b: 255 }; };
    const found = [];
    for (const node of document.querySelectorAll('body *')) {
      if (node.closest('svg, .unseen, .skip, .later, option, noscript, [hidden]') || !node.checkVisibility()) continue;
      if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim() !== '')) continue;
      const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (contrast < 4.5) found.push(node.tagName + ' ' + node.textContent.slice(0, 40) + ' ' + contrast.toFixed(2));
    }
    return found;
  })()`);
}

/** Elements that overflow the window to the right. */
export function sticksOut(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const wide = [...document.querySelectorAll('body *')].filter((node) => node.checkVisibility() && !node.closest('.scroll, #diagram, pre, .unseen') && node.getBoundingClientRect().right > innerWidth + 1);
    return [...(document.documentElement.scrollWidth > innerWidth ? ['the page is ' + document.documentElement.scrollWidth + ' wide'] : []), ...wide.map((node) => node.tagName + '#' + node.id)];
  })()`);
}

/** The ids or names of all elements in Tab order; `?` marks one without a visible focus. */
export async function tabStops(page: Page, most: number): Promise<string[]> {
  const stops: string[] = [];
  for (let count = 0; count < most; count += 1) {
    await page.keyboard.press('Tab');
    const stop: string = await page.evaluate(`(() => {
      const node = document.activeElement;
      if (node === document.body || node === null) return '';
      const shown = getComputedStyle(node).outlineStyle !== 'none';
      return (shown ? '' : '?') + (node.id || node.dataset.machine || node.className || node.tagName + ' ' + node.textContent.slice(0, 20));
    })()`);
    if (stop === '') return stops;
    stops.push(stop);
  }
  return stops;
}
