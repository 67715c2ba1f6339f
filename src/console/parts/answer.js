// @ts-check
import { DRAW_MS, OUTPUT_CHARACTERS } from '../bounds.js';
import { drawMarkdown, forgetMarkdown } from './markdown.js';

/**
 * Draws an answer as it grows. A drawing that takes long is repeated less often, so that the page
 * stays responsive.
 */
export class AnswerBox {
  /**
   * @param {() => HTMLElement} boxOf
   * @param {{ isAtEnd: () => boolean, toEnd: () => void }} [view] that follows the end
   */
  constructor(boxOf, view) {
    this.boxOf = boxOf;
    this.view = view;
    /** Draws it as it is written. */
    this.plain = false;
    this.text = '';
    this.due = false;
    this.next = 0;
  }

  /**
   * @param {string} full
   * @param {boolean} whole it grows no more
   */
  draw(full, whole) {
    this.text = full.slice(-OUTPUT_CHARACTERS);
    const wait = this.next - performance.now();
    if (whole || wait <= 0) return this.now();
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      this.now();
    }, wait);
  }

  now() {
    const started = performance.now();
    const box = this.boxOf();
    const follows = this.view?.isAtEnd() ?? false;
    box.classList.toggle('as-is', this.plain);
    if (this.plain) {
      forgetMarkdown(box);
      drawPlain(box, this.text);
    } else drawMarkdown(box, this.text);
    if (follows) this.view?.toEnd();
    const took = performance.now() - started;
    this.next = performance.now() + Math.max(DRAW_MS, 4 * took);
  }
}

/**
 * Appends only new text, so that a selection survives.
 * @param {HTMLElement} box
 * @param {string} text
 */
function drawPlain(box, text) {
  const node = box.firstChild;
  const shown = node instanceof Text && box.childNodes.length === 1 ? node.data : null;
  if (shown !== null && text.startsWith(shown))
    /** @type {Text} */ (node).appendData(text.slice(shown.length));
  else box.replaceChildren(text);
}
