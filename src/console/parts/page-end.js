// @ts-check
import { place } from '../state/address.js';

/** The end of the chat, where its answer grows. */

/** A user who reads above the end is not disturbed, also not by a drawing of the same frame. */
export function isAtEnd() {
  return window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;
}

export function toEnd() {
  if (place().page === 'chat') window.scrollTo(0, document.documentElement.scrollHeight);
}
