import { ChatTemplate } from './template.ts';

/** What a model is asked with. */
export interface Choice {
  /** Null: the text of a prompt as it is. */
  template: ChatTemplate | null;
  source: string;
  /** `file`, the name of one below, or `none`. */
  name: string;
  /** Why the template of the file is not used. Null: it is used, or there is none. */
  problem: string | null;
}

/** What of a model file matters here. */
export interface TemplateFile {
  /** Null: the file has no template. */
  source: string | null;
  bos_token: string;
  eos_token: string;
  /** How its tokens are spelled. */
  vocabulary: readonly string[];
}

/**
 * The template of the file. One that cannot be rendered is replaced by the plain form of its
 * control tokens. Without one, the model continues texts.
 */
export function chooseTemplate({ source, vocabulary, ...tokens }: TemplateFile): Choice {
  if (source === null) return { template: null, source: '', name: 'none', problem: null };
  try {
    return { template: new ChatTemplate(source, tokens), source, name: 'file', problem: null };
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    const problem = reason.replace(/\s+/g, ' ').slice(0, REASON_MAX);
    const found = Object.entries(PLAIN).find(([, { mark }]) => vocabulary.includes(mark));
    if (found === undefined) return { template: null, source, name: 'none', problem };
    const [name, form] = found;
    return {
      template: new ChatTemplate(plainTemplate(form), tokens),
      // The control tokens that the file uses stay control tokens.
      source: source + plainTemplate(form),
      name,
      problem,
    };
  }
}
const REASON_MAX = 160;

interface PlainForm {
  /** A token that only models of this form have. */
  mark: string;
  before: string;
  after: string;
  end: string;
  assistant: string;
}

/** How public models write turns: `before`, the role, `after`, the text, `end`. */
const PLAIN: Readonly<Record<string, PlainForm>> = {
  chatml: {
    mark: '<|im_start|>',
    before: '<|im_start|>',
    after: '\n',
    end: '<|im_end|>\n',
    assistant: 'assistant',
  },
  llama3: {
    mark: '<|start_header_id|>',
    before: '<|start_header_id|>',
    after: '<|end_header_id|>\n\n',
    end: '<|eot_id|>',
    assistant: 'assistant',
  },
  gemma: {
    mark: '<start_of_turn>',
    before: '<start_of_turn>',
    after: '\n',
    end: '<end_of_turn>\n',
    assistant: 'model',
  },
};

function plainTemplate({ before, after, end, assistant }: PlainForm): string {
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
