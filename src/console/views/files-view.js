// @ts-check
import { FILES_MAX } from '../bounds.js';
import { ApiError } from '../daemon/api.js';
import { readAttached } from '../parts/attached.js';
import { byId, el, say } from '../parts/dom.js';
import { formatBytes } from '../parts/figures.js';
import { runFacts } from '../state/run-facts.js';

/**
 * The files that go with the next question: chosen, dropped on the chat, or pasted.
 *
 * 1. `files` are whole, and together no larger than a prompt may be. So they are read one after the
 *    other.
 * 2. They stay until a question with them is accepted, or the user removes them.
 * 3. A question waits for the files that are read, and is not sent without one that was refused
 *    meanwhile.
 *
 * @typedef {import('../parts/attached.js').Attached} Attached
 */

/** @type {readonly Attached[]} */
let files = [];
/**
 * Whether all files that are read now are taken, at their end. Null: none is read.
 * @type {Promise<boolean> | null}
 */
let reading = null;

export function mountFiles() {
  const input = /** @type {HTMLInputElement} */ (byId('ask-file'));
  byId('ask-attach').addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    add([...(input.files ?? [])]);
    input.value = '';
  });
  const chat = byId('chat');
  chat.addEventListener('dragover', (event) => {
    if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
  });
  chat.addEventListener('drop', (event) => {
    const dropped = [...(event.dataTransfer?.files ?? [])];
    if (dropped.length === 0) return;
    event.preventDefault();
    add(dropped);
  });
  byId('ask-prompt').addEventListener('paste', (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    add(pasted);
  });
}

/** The files, once all are read. Null: one of them was refused, and the form says why. */
export async function readFiles() {
  if (reading === null) return files;
  say(byId('ask-said'), 'The question is sent once its files are read.');
  return (await reading) ? files : null;
}

/** @param {readonly Attached[]} sent */
export function dropFiles(sent) {
  files = files.filter((file) => !sent.includes(file));
  draw();
}

/** @param {readonly File[]} chosen */
function add(chosen) {
  const before = reading ?? Promise.resolve(true);
  const mine = before.then(async (all) => (await read(chosen)) && all);
  reading = mine;
  void mine.finally(() => {
    if (reading === mine) reading = null;
  });
}

/** Whether all were taken. @param {readonly File[]} chosen */
async function read(chosen) {
  const line = byId('ask-said');
  const refuse = (/** @type {string} */ why) => {
    say(line, why);
    return false;
  };
  say(line, '');
  try {
    const { media, bytes } = await runFacts();
    for (const file of chosen) {
      if (files.length >= FILES_MAX) return refuse(`A question takes at most ${FILES_MAX} files.`);
      const left = bytes - files.reduce((sum, one) => sum + one.bytes, 0);
      const attached = await readAttached(file, { media, left });
      if (typeof attached === 'string') return refuse(attached);
      files = [...files, attached];
      draw();
    }
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return refuse(error.message);
  }
}

function draw() {
  byId('ask-files').replaceChildren(
    ...files.map((file) =>
      el(
        'li',
        { class: 'chip plain' },
        `${file.name}, ${formatBytes(file.bytes)} `,
        el(
          'button',
          {
            type: 'button',
            class: 'quiet',
            'aria-label': `Remove the file ${file.name}`,
            click: () => {
              files = files.filter((one) => one !== file);
              draw();
              byId('ask-attach').focus();
            },
          },
          '×',
        ),
      ),
    ),
  );
}
