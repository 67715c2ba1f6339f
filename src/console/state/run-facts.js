// @ts-check
import { ask } from '../daemon/api.js';

/**
 * What a request may hold, as the daemon says it: its numbers and files from the program, and the
 * presets and bounds of its settings. Read when first needed, and again after a failure.
 *
 * @typedef {{ min: number, max: number, whole: boolean }} NumberField
 * @typedef {import('../../config/presets.ts').Preset} Preset
 * @typedef {{ numbers: Record<string, NumberField>, media: Record<string, string>, prompt_place:
 * string, presets: Record<string, Preset>, bytes: number }} RunFacts
 */

/** @type {Promise<RunFacts> | null} */
let facts = null;

/** Throws ApiError. @returns {Promise<RunFacts>} */
export function runFacts() {
  facts ??= read();
  facts.catch(() => {
    facts = null;
  });
  return facts;
}

/** The settings may have changed meanwhile. */
export function forgetFacts() {
  facts = null;
}

/** @returns {Promise<RunFacts>} */
async function read() {
  const [fields, { settings }] = await Promise.all([
    ask('/console/run-fields.json'),
    ask('/v1/settings'),
  ]);
  const value = (/** @type {string} */ key) =>
    settings.find((/** @type {{ key: string }} */ one) => one.key === key)?.value;
  return { ...fields, presets: value('presets') ?? {}, bytes: value('limits.prompt_bytes') };
}
