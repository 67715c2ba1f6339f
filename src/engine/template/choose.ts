import { FORMS, nameOfNamed, textOfNamed } from './named.ts';
import { ChatTemplate } from './template.ts';

/** The chosen template of a model, with its source. */
export interface Choice {
  /** Null: the text of a prompt as it is. */
  template: ChatTemplate | null;
  /** Of the template. */
  text: string;
  /** All texts in which a control token is one. */
  source: string;
  /** `file`, `none`, `given`, or the form or the path that replaces the template of the file. */
  name: string;
  /** Why a template is not used. Null: it is used, or the file has none. */
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
 * The template that the configuration names, else that of the file. A template of the file that
 * cannot be rendered is replaced by the plain form of its control tokens. Without a template, the
 * model continues texts.
 *
 * `named`: see `textOfNamed`. A named template that cannot be used counts as absent, with a
 * problem.
 */
export function chooseTemplate(file: TemplateFile, named: readonly string[] = []): Choice {
  const [chosen, other] = named;
  if (chosen === undefined) return templateOfFile(file);
  const name = nameOfNamed(chosen);
  try {
    if (other !== undefined) throw new Error(`several templates: ${named.join(', ')}`);
    const text = textOfNamed(chosen);
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

function reasonOf(thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return reason.replace(/\s+/g, ' ').slice(0, REASON_MAX);
}
const REASON_MAX = 160;
