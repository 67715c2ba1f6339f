// @ts-check
import { FILES_MAX } from '../bounds.js';
import { ApiError } from '../daemon/api.js';
import { readAttached } from '../parts/attached.js';
import { byId, el, say } from '../parts/dom.js';
import { sized } from '../parts/figures.js';
import { runFacts } from '../state/run-facts.js';

/**
 * The files that go with the next question: chosen, dropped on the chat, or pasted.
 *
 * 1. `files` are whole, and together no larger than a prompt may be.
 * 2. They stay until a question with them is accepted, or the user removes them.
 */

/** @type {import('../parts/attached.js').Attached[]} */
let files = [];

export function mountFiles() {
  const input = /** @type {HTMLInputElement} */ (byId('ask-file'));
  byId('ask-attach').addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    void add([...(input.files ?? [])]);
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
    void add(dropped);
  });
  byId('ask-prompt').addEventListener('paste', (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    void add(pasted);
  });
}

export function attachedFiles() {
  return files;
}

export function dropFiles() {
  files = [];
  draw();
}

/** @param {readonly File[]} chosen */
async function add(chosen) {
  const said = byId('ask-said');
  say(said, '');
  try {
    const { images, bytes } = await runFacts();
    for (const file of chosen) {
      if (files.length >= FILES_MAX)
        return say(said, `A question takes at most ${FILES_MAX} files.`);
      const left = bytes - files.reduce((sum, one) => sum + one.bytes, 0);
      const read = await readAttached(file, { images, left });
      if (typeof read === 'string') return say(said, read);
      files.push(read);
      draw();
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(said, error.message);
  }
}

function draw() {
  byId('ask-files').replaceChildren(
    ...files.map((file) =>
      el(
        'li',
        { class: 'chip plain' },
        `${file.name}, ${sized(file.bytes)} `,
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
