// What the scripts share: each case prints its outcome as one line.
export const { SVC_URL, SVC_TOKEN, SVC_MODEL_ID, SVC_THINKING_ID, SVC_EMBEDDING_ID } = process.env;

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

export function includes(text, part) {
  if (!String(text).includes(part))
    throw new Error(`${JSON.stringify(text)} lacks ${JSON.stringify(part)}`);
}

/** A PNG of one point. */
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
