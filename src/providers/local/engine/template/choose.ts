import { readFileSync, statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { TemplateForm } from '../../../../config/value.ts';
import { ChatTemplate } from './template.ts';

/** What a model is asked with. */
export interface Choice {
  /** Null: the text of a prompt as it is. */
  template: ChatTemplate | null;
  /** Of the template. */
  text: string;
  /** All texts in which a control token is one. */
  source: string;
  /** `file`, `none`, `given`, or the form or the path that replaces the template of the file. */
  name: string;
  /** Why a template is not used. Null: it is, or there is none. */
  problem: string | null;
}

/** What of a model file matters here. */
export interface TemplateFile {
  /** Null: the file has no template. */
  source: string | null;
  bos_token: string;
  eos_token: string;
  /** How its tokens are spelled. */
  vocabulary: { includes(text: string): boolean };
}

/**
 * The template that the configuration names, else that of the file. Of the file, one that cannot be
 * rendered is replaced by the plain form of its control tokens. Without one, the model continues
 * texts.
 *
 * `named`: forms, paths of Jinja files, and templates themselves. One that cannot be used counts as
 * none, with a problem.
 */
export function chooseTemplate(file: TemplateFile, named: readonly string[] = []): Choice {
  const [chosen, other] = named;
  if (chosen === undefined) return templateOfFile(file);
  const form = Object.hasOwn(FORMS, chosen) ? FORMS[chosen as TemplateForm] : null;
  const name = form !== null || isAbsolute(chosen) ? chosen : 'given';
  try {
    if (other !== undefined) throw new Error(`several templates: ${named.join(', ')}`);
    const text = form?.template ?? (name === 'given' ? chosen : readTemplate(name));
    const source = text + (file.source ?? '');
    return { template: new ChatTemplate(text, file), text, source, name, problem: null };
  } catch (thrown) {
    const own = templateOfFile(file);
    const place = other === undefined ? `model_templates: ${name}` : 'model_templates';
    const where = name === 'given' ? '' : `${place}: `;
    const rest = own.problem === null ? '' : `; ${own.problem}`;
    return { ...own, problem: `${where}${reasonOf(thrown)}${rest}` };
  }
}

function templateOfFile(file: TemplateFile): Choice {
  const { source, vocabulary } = file;
  const none = { template: null, text: '', source: source ?? '', name: 'none' };
  if (source === null) return { ...none, problem: null };
  try {
    const template = new ChatTemplate(source, file);
    return { template, text: source, source, name: 'file', problem: null };
  } catch (thrown) {
    const problem = reasonOf(thrown);
    const found = Object.entries(FORMS).find(
      ([, { mark }]) => mark !== null && vocabulary.includes(mark),
    );
    if (found === undefined) return { ...none, problem };
    const [name, { template: text }] = found;
    // The control tokens that the file uses stay control tokens.
    return { template: new ChatTemplate(text, file), text, source: source + text, name, problem };
  }
}

/** Throws Error. */
function readTemplate(path: string): string {
  const stats = statSync(path);
  if (!stats.isFile()) throw new Error('it is not a file');
  if (stats.size > BYTES_MAX) throw new Error(`it has more than ${BYTES_MAX} bytes`);
  return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path));
}
const BYTES_MAX = 1_048_576;

function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return reason.replace(/\s+/g, ' ').slice(0, REASON_MAX);
}
const REASON_MAX = 160;

interface Form {
  /** A token that only models of this form have. Null: none does. */
  mark: string | null;
  template: string;
}

/** How turns are written: `before`, the role, `after`, the text, `end`. */
interface Turns {
  before: string;
  after: string;
  end: string;
  assistant?: string;
}

/** How public models write turns. */
const FORMS: Readonly<Record<TemplateForm, Form>> = {
  chatml: {
    mark: '<|im_start|>',
    template: turns({ before: '<|im_start|>', after: '\n', end: '<|im_end|>\n' }),
  },
  llama3: {
    mark: '<|start_header_id|>',
    template: turns({
      before: '<|start_header_id|>',
      after: '<|end_header_id|>\n\n',
      end: '<|eot_id|>',
    }),
  },
  gemma: {
    mark: '<start_of_turn>',
    template: turns({
      before: '<start_of_turn>',
      after: '\n',
      end: '<end_of_turn>\n',
      assistant: 'model',
    }),
  },
  phi: { mark: null, template: turns({ before: '<|', after: '|>\n', end: '<|end|>\n' }) },
  granite: {
    mark: null,
    template: turns({
      before: '<|start_of_role|>',
      after: '<|end_of_role|>',
      end: '<|end_of_text|>\n',
    }),
  },
  mistral: {
    mark: null,
    template:
      "{% for message in messages %}{% if message.role == 'user' %}" +
      "{{ '[INST] ' + message.content + ' [/INST]' }}{% elif message.role == 'assistant' %}" +
      "{{ ' ' + message.content + eos_token }}{% else %}" +
      "{{ raise_exception('no system role') }}{% endif %}{% endfor %}",
  },
};

function turns({ before, after, end, assistant = 'assistant' }: Turns): string {
  const text = (value: string) => JSON.stringify(value);
  const role = `(${text(assistant)} if message.role == 'assistant' else message.role)`;
  const refusal =
    assistant === 'model'
      ? "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
      : '';
  return (
    `${refusal}{% for message in messages %}{{ ${text(before)} + ${role} + ${text(after)} + ` +
    `message.content + ${text(end)} }}{% endfor %}{% if add_generation_prompt %}` +
    `{{ ${text(before + assistant + after)} }}{% endif %}`
  );
}
