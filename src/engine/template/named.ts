import { readFileSync, statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { TemplateForm } from '../../config/value.ts';

/** For users: a form or a path, and `given` for a template itself. */
export function nameOfNamed(named: string): string {
  return isForm(named) || isAbsolute(named) ? named : 'given';
}

/**
 * The chat template of a form of svc, of the path of a Jinja file, or a template itself. Throws
 * Error.
 */
export function textOfNamed(named: string): string {
  if (isForm(named)) return FORMS[named].template;
  if (!isAbsolute(named)) return named;
  const stats = statSync(named);
  if (!stats.isFile()) throw new Error('it is not a file');
  if (stats.size > BYTES_MAX) throw new Error(`it has more than ${BYTES_MAX} bytes`);
  return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(named));
}
const BYTES_MAX = 1_048_576;

function isForm(named: string): named is TemplateForm {
  return Object.hasOwn(FORMS, named);
}

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
export const FORMS: Readonly<Record<TemplateForm, Form>> = {
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
