// @ts-check
import { ApiError } from '../daemon/api.js';
import { byId, el, say, setOptions } from '../parts/dom.js';
import { on } from '../state/model.js';
import { forgetFacts, runFacts } from '../state/run-facts.js';

/**
 * The options of the next question: system text, numbers, stop texts, a schema, and the preset that
 * fills all these. The program says which numbers there are, and their bounds.
 */
export function mountFields() {
  const more = /** @type {HTMLDetailsElement} */ (byId('ask-more'));
  more.addEventListener('toggle', () => {
    if (!more.open) return;
    forgetFacts();
    void open();
  });
  more.addEventListener('input', count);
  byId('ask-preset').addEventListener('change', () => void fill());
  on(['connection'], () => {
    forgetFacts();
    if (more.open) void open();
  });
}

/** Of a preset that was chosen: whether a cloud may answer. */
let cloud = false;
/** Where a template has the prompt. */
let promptPlace = '';
/** @type {(model: string) => void} */
let choose = () => {};

/** Where a preset puts its model. @param {(model: string) => void} listener */
export function onPresetModel(listener) {
  choose = listener;
}

/** @param {string} id */
function field(id) {
  return /** @type {HTMLInputElement} */ (byId(id));
}

/** @returns {HTMLInputElement[]} */
function numberFields() {
  return [...byId('ask-numbers').querySelectorAll('input')];
}

async function open() {
  const facts = await runFacts().catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    say(byId('ask-said'), error.message);
    return null;
  });
  if (facts === null) return;
  promptPlace = facts.prompt_place;
  if (byId('ask-numbers').childElementCount === 0)
    byId('ask-numbers').append(
      ...Object.entries(facts.numbers).map(([name, { min, max, whole }]) =>
        el(
          'label',
          { title: `From ${min} to ${max}.` },
          `${name[0]?.toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`,
          el('input', {
            id: `ask-${name.replaceAll('_', '-')}`,
            name,
            type: 'number',
            min,
            max,
            step: whole ? 1 : 'any',
            placeholder: "the model's",
          }),
        ),
      ),
    );
  const presets = Object.keys(facts.presets);
  byId('ask-presets').hidden = presets.length === 0;
  setOptions(/** @type {HTMLSelectElement} */ (byId('ask-preset')), [
    { value: '', text: 'none' },
    ...presets.map((name) => ({ value: name, text: name })),
  ]);
}

/** Fills the form with what the chosen preset says. None empties it. */
async function fill() {
  const { presets } = await runFacts();
  const { system, template, provider, model, stop, response_format, tool_servers, ...rest } =
    presets[field('ask-preset').value] ?? {};
  cloud = rest.cloud === true;
  field('ask-system').value = system ?? '';
  field('ask-template').value = template ?? '';
  field('ask-tools').value = (tool_servers ?? []).join(', ');
  field('ask-ends').value = (stop ?? [])
    .map((text) => JSON.stringify(text).slice(1, -1))
    .join('\n');
  field('ask-schema').value =
    response_format === undefined ? '' : JSON.stringify(response_format.schema ?? {});
  for (const input of numberFields())
    input.value = String(rest[/** @type {keyof typeof rest} */ (input.name)] ?? '');
  const models = [model ?? []].flat();
  const named = provider === undefined ? models : models.map((name) => `${provider}/${name}`);
  choose(named.length === 0 ? (provider ?? '') : named.join(', '));
  count();
}

/** A closed form says that it asks for something. */
function count() {
  const texts = ['ask-system', 'ask-template', 'ask-ends', 'ask-schema', 'ask-tools'].map(field);
  const set = [...texts, ...numberFields()].filter(({ value }) => value.trim() !== '').length;
  say(byId('ask-set'), set === 0 ? '' : `(${set} set)`);
}

/** The fields of the form, without the prompt; or why a run cannot have them. */
export function fieldsOfForm() {
  const wrong = numberFields().find((input) => !input.checkValidity());
  if (wrong !== undefined) return `${wrong.labels?.[0]?.textContent}: ${wrong.validationMessage}`;
  const stop = stopTexts();
  if (stop === null) return 'Ends at: a backslash begins an escape of JSON, such as \\n.';
  const template = field('ask-template').value;
  if (template !== '' && !template.includes(promptPlace))
    return `The template must have ${promptPlace}, where the prompt is put.`;
  const schema = schemaOf(field('ask-schema').value.trim());
  if (typeof schema === 'string') return schema;
  const tool_servers = field('ask-tools')
    .value.split(/[\s,]+/)
    .filter(Boolean);
  return {
    ...Object.fromEntries(
      numberFields()
        .filter(({ value }) => value !== '')
        .map(({ name, valueAsNumber }) => [name, valueAsNumber]),
    ),
    ...(stop.length === 0 ? {} : { stop }),
    ...(tool_servers.length === 0 ? {} : { tool_servers }),
    ...(schema === null ? {} : { response_format: { type: 'json', schema } }),
    ...(cloud ? { cloud } : {}),
  };
}

/** The prompt in the template, if there is one. @param {string} prompt */
export function inTemplate(prompt) {
  const template = field('ask-template').value;
  return template === '' ? prompt : template.replaceAll(promptPlace, () => prompt);
}

export function systemText() {
  return field('ask-system').value.trim();
}

/** One text a line, as JSON writes it between quotes. Null: a line is not such a text. */
function stopTexts() {
  const lines = field('ask-ends').value.split('\n');
  try {
    return lines
      .filter((line) => line !== '')
      .map((line) => String(JSON.parse(`"${line.replaceAll(/(?<!\\)"/g, '\\"')}"`)));
  } catch {
    return null;
  }
}

/**
 * Null: none was given. A text says what is wrong.
 * @param {string} text
 * @returns {object | string | null}
 */
function schemaOf(text) {
  if (text === '') return null;
  try {
    const schema = JSON.parse(text);
    if (typeof schema === 'object' && schema !== null && !Array.isArray(schema)) return schema;
  } catch {}
  return 'The JSON schema must be a JSON object, such as {"type": "object"}.';
}
