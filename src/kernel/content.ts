import { redactor } from '../pattern.ts';
import type { Commit, EventStore, RunRow, StoredEvent } from '../store/port.ts';

/** Which texts are stored; `redact` are regular expressions. */
export interface ContentSettings {
  prompts: 'keep' | 'omit';
  outputs: 'keep' | 'omit';
  redact: readonly string[];
}

/** Whether prompts and outputs are stored in full. If not, runs cannot resume after a crash. */
export function keepsContent({ prompts, outputs, redact }: ContentSettings): boolean {
  return prompts === 'keep' && outputs === 'keep' && redact.length === 0;
}

/**
 * Removes texts from a commit before it is stored. Live followers see them. The chain of hashes covers what is stored.
 *
 * 1. An omitted prompt or output is in no field of a stored event, row or error.
 * 2. With patterns, output events are stored without their text, because they may split a secret.
 *    The finished record has the whole output, redacted.
 */
export function stripper(settings: ContentSettings): (commit: Commit) => Commit {
  if (keepsContent(settings)) return (commit) => commit;
  const texts = new Texts(settings);
  return ({ events, runs }) => ({
    events: events.map((event) => stripEvent(event, texts)),
    runs: runs.map((row) => stripRow(row, texts)),
  });
}

/** The store of the kernel, which may strip texts from commits. */
export type KernelStore = EventStore & { omitsOutput?: boolean };

export function strippingStore(store: EventStore, settings: ContentSettings): KernelStore {
  const strip = stripper(settings);
  return {
    ...store,
    append: async (commit) => store.append(strip(commit)),
    omitsOutput: !new Texts(settings).keepsPieces,
  };
}

/** An output event with its text, restored from the run in memory if it was stored without. Null when the text is lost. */
export function withText(event: StoredEvent, output = ''): StoredEvent | null {
  const { chars, ...data } = event.data;
  if (event.type !== 'run.output_appended' || typeof chars !== 'number') return event;
  const begin = Number(data.offset);
  const text = output.slice(begin, begin + chars);
  return text.length === chars ? { ...event, data: { ...data, text } } : null;
}

class Texts {
  private readonly settings: ContentSettings;
  private readonly redacted: (text: string) => string;

  constructor(settings: ContentSettings) {
    this.settings = settings;
    this.redacted = redactor(settings.redact);
  }

  prompt(text: unknown): string {
    return this.settings.prompts === 'omit' ? '' : this.redact(text);
  }

  system(text: unknown): string | null {
    return this.settings.prompts === 'omit' || text === null ? null : this.redact(text);
  }

  output(text: unknown): string {
    return this.settings.outputs === 'omit' ? '' : this.redact(text);
  }

  /** Whether output events keep their text. */
  get keepsPieces(): boolean {
    return this.settings.outputs === 'keep' && this.settings.redact.length === 0;
  }

  redact(text: unknown): string {
    return this.redacted(String(text));
  }
}

function stripEvent(event: StoredEvent, texts: Texts): StoredEvent {
  const data = stripData(event, texts);
  return data === event.data ? event : { ...event, data };
}

function stripData({ type, data }: StoredEvent, texts: Texts): Record<string, unknown> {
  if (type === 'run.accepted') {
    const request = data.request as Record<string, unknown>;
    return {
      ...data,
      request: {
        ...request,
        prompt: texts.prompt(request.prompt),
        system: texts.system(request.system),
      },
      content: 'omitted',
    };
  }
  if (type === 'run.output_appended')
    return texts.keepsPieces
      ? data
      : { ...data, text: '', token_ids: [], chars: String(data.text).length };
  return isObject(data.error) ? { ...data, error: stripError(data.error, texts) } : data;
}

function stripRow(row: RunRow, texts: Texts): RunRow {
  if (row.record === null) return row;
  const { prompt, system, output, error } = row.record;
  const said = {
    prompt: texts.prompt(prompt),
    system: texts.system(system),
    output: texts.output(output),
  };
  return {
    ...row,
    record: { ...row.record, ...said, error: isObject(error) ? stripError(error, texts) : error },
  };
}

function stripError(error: Record<string, unknown>, texts: Texts): Record<string, unknown> {
  return { ...error, message: texts.redact(error.message) };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
