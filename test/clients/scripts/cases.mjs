// What the scripts share: each case prints its outcome as one line.
export const { SVC_URL, SVC_TOKEN, SVC_MODEL_ID, SVC_THINKING_ID, SVC_EMBEDDING_ID } = process.env;
/** The model is a real one, of `npm run clients -- --real`. */
const { SVC_REAL } = process.env;

export async function attempt(name, work) {
  try {
    await work();
    console.log(`CASE ${JSON.stringify({ name, ok: true, why: '' })}`);
  } catch (thrown) {
    const why = String(thrown?.message ?? thrown).slice(0, 300);
    console.log(`CASE ${JSON.stringify({ name, ok: false, why })}`);
  }
}

export function expect(seen, wanted, what = '') {
  const [a, b] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} is ${a}, not ${b}`);
}

/** What the model says. The scripted one says just that; a real one says something of the kind. */
export function says(seen, wanted) {
  if (SVC_REAL === undefined) return expect(seen, wanted);
  expect(kindOf(seen), kindOf(wanted), `the kind of ${JSON.stringify(seen)}`);
}

function kindOf(value) {
  if (Array.isArray(value)) return value.map(kindOf);
  if (value !== null && typeof value === 'object')
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, kindOf(each)]));
  return value === '' || value === null ? value : typeof value;
}

/** A real model has a choice, so the case of a call requires one of it. */
export const required = (choice) => (SVC_REAL === undefined ? {} : { tool_choice: choice });

export function includes(text, part) {
  if (SVC_REAL !== undefined) return says(text, part);
  if (!String(text).includes(part))
    throw new Error(`${JSON.stringify(text)} lacks ${JSON.stringify(part)}`);
}

/** A PNG of one point. */
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
