// @ts-check

/**
 * Files of a request. Their content says what they are, not their name: UTF-8 text, images and
 * sounds are taken, as `svc run --file` takes them.
 *
 * @typedef {{ type: 'text', text: string }} Text
 * @typedef {Text | { type: 'image' | 'audio', media_type: string, data: string }} Content
 * @typedef {{ name: string, bytes: number, content: Content }} Attached
 */

/** Bytes of a file that say what it is. */
const HEAD_BYTES = 18;

/**
 * Reads a file, or says why it cannot be used.
 * @param {File} file
 * @param {{ media: Record<string, string>, left: number }} bounds `left`: bytes that may be added
 * @returns {Promise<Attached | string>}
 */
export async function readAttached(file, { media, left }) {
  const tooLarge = `With ${file.name} the prompt is larger than it may be.`;
  if (file.size > left) return tooLarge;
  const bytes = await file.arrayBuffer().then(
    (buffer) => new Uint8Array(buffer),
    () => null,
  );
  if (bytes === null) return `${file.name} cannot be read.`;
  const content = contentOf(bytes, media);
  if (content === null)
    return `${file.name} is neither text (UTF-8) nor a file that a run takes (${kinds(media)}).`;
  const size = content.type === 'text' ? bytes.length : content.data.length;
  return size > left ? tooLarge : { name: file.name, bytes: size, content };
}

/** @param {Record<string, string>} media */
function kinds(media) {
  return Object.keys(media)
    .map((type) => type.replace(/^.*\//, ''))
    .join(', ');
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {Record<string, string>} media
 * @returns {Content | null}
 */
function contentOf(bytes, media) {
  const head = [...bytes.subarray(0, HEAD_BYTES)]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
  const [media_type] =
    Object.entries(media).find(([, signature]) => new RegExp(signature).test(head)) ?? [];
  if (media_type !== undefined) {
    const type = media_type.startsWith('image/') ? 'image' : 'audio';
    return { type, media_type, data: base64(bytes) };
  }
  if (bytes.includes(0)) return null;
  try {
    return { type: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return null;
  }
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  let text = '';
  // A call takes only so many arguments.
  for (let from = 0; from < bytes.length; from += PIECE)
    text += String.fromCharCode(...bytes.subarray(from, from + PIECE));
  return btoa(text);
}
const PIECE = 8192;

/**
 * The message of the user with these files: they come after the prompt, each under its name. Text
 * alone is a prompt. With an image it is one message.
 * @param {string} prompt
 * @param {readonly Attached[]} files
 * @returns {{ prompt: string } | { parts: Content[] }}
 */
export function contentWith(prompt, files) {
  /** @type {Content[]} */
  const parts = [];
  const say = (/** @type {string} */ text) => {
    const last = parts.at(-1);
    if (last?.type === 'text') parts[parts.length - 1] = { ...last, text: last.text + text };
    else parts.push({ type: 'text', text });
  };
  if (prompt.trim() !== '') say(prompt);
  for (const { name, content } of files) {
    say(`${parts.length === 0 ? '' : '\n\n'}File ${name}:\n`);
    if (content.type === 'text') say(content.text.replace(/\r?\n$/, ''));
    else parts.push(content);
  }
  const [only] = parts;
  return parts.length === 1 && only?.type === 'text' ? { prompt: only.text } : { parts };
}
