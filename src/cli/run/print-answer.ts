import type { RunEnd } from '../../contract/words.ts';
import { type ErrorCode, formError, fromBody, SvcError } from '../../errors.ts';
import { oneLine, toPlain } from '../../logs/plain.ts';
import { terminalColumns } from '../../logs/width.ts';
import { WordWrap } from '../../logs/word-wrap.ts';
import {
  isTerminal,
  note,
  paint,
  printError,
  printJson,
  writeError,
} from '../terminal/print/output.ts';
import type { StdoutStream } from '../terminal/print/stdout-stream.ts';
import { withTypedHint } from '../terminal/print/typed-hint.ts';
import type { Run, Steps } from './follow.ts';
import { prefixProvider } from './progress.ts';
import { statsOf, statsText } from './stats.ts';
import { showWait } from './status-line.ts';

/**
 * Streams the answer to stdout. Line breaks at the end wait until more text follows, so the output
 * ends with exactly one. On a terminal, control characters are escaped, and lines are broken
 * between words. An empty answer prints nothing.
 */
export class AnswerPrinter {
  private readonly stdout: StdoutStream;
  private readonly clean: (text: string) => string;
  private readonly wrap: WordWrap | null;
  private readonly breaks = new LineBreaks();
  private begun = false;
  private midLine = false;

  constructor(stdout: StdoutStream) {
    this.stdout = stdout;
    this.clean = isTerminal(1) ? toPlain : (text) => text;
    this.wrap = isTerminal(1) ? new WordWrap(() => terminalColumns(process.stdout)) : null;
  }

  /** Whether the cursor is behind text of the answer. The caller then moves it to a new line. */
  leaveLine(): boolean {
    const was = this.midLine;
    this.midLine = false;
    // A word that waits belongs to the line that is left.
    void this.stdout.write(this.wrap?.end() ?? '');
    this.wrap?.restart();
    return was;
  }

  async append(text: string): Promise<void> {
    const body = this.breaks.follow(text);
    if (body === '') return;
    this.begun = true;
    this.midLine = true;
    const shown = this.clean(body);
    await this.stdout.write(this.wrap?.add(shown) ?? shown);
  }

  /** Prints the rest of the answer and the final line break. */
  async end(rest: string, complete: boolean): Promise<void> {
    await this.append(rest);
    await this.stdout.write(this.wrap?.end() ?? '');
    this.midLine = false;
    if (this.begun || complete) await this.stdout.write('\n');
    await this.stdout.flush();
  }
}

interface Printing extends Steps {
  onAccepted(run: Run): void;
  /** The part of the answer that was not printed yet. */
  unprintedOf(record: Run): string;
  /** Whether the events had text. The log may have omitted it from the record. */
  readonly hasText: boolean;
  /** The longest answer that the run asked for; null: it asked for none. Undefined: unknown. */
  readonly maxTokens: number | null | undefined;
}

/**
 * Prints the answer until `stop`, and collects the text that is printed at the end.
 *
 * 1. The answer comes from the events. The record may have less of it, because the log can omit
 *    output; it is used only if no event had output.
 * 2. The answer of a run that may start again is printed at the end only.
 */
export function createPrinting(
  live: AnswerPrinter | null,
  json: boolean,
  stop: AbortSignal,
): Printing {
  let printer = live;
  let hadOutput = false;
  /** The calls that wait for a person. */
  const asked = new Set<unknown>();
  let isMoving = false;
  let maxTokens: number | null | undefined;
  let collected: string[] = [];
  const thoughts = new Thoughts(!json && live !== null);
  const wait = showWait(json, () => {
    thoughts.leaveLine();
    if (isTerminal(1) && live?.leaveLine() === true) writeError('\n');
  });
  return {
    onDaemonStart: () => wait.add({ type: 'starting' }),
    onAccepted: ({ recovery, ask_again, provider }) => {
      if (recovery === 'restart' || ask_again === true) printer = null;
      wait.add({ type: 'accepted', provider });
    },
    onTokenBound: (tokens) => {
      maxTokens = tokens;
    },
    onProviderCall: (provider) => provider !== undefined && wait.add({ type: 'started', provider }),
    onModelLoading: (model, part) => wait.add({ type: 'loading', model, part }),
    onReasoning: (text) => {
      if (printer === null || stop.aborted) return;
      wait.add({ type: 'answering' });
      thoughts.append(text);
    },
    onOutput: (text) => {
      hadOutput = true;
      if (printer === null) {
        collected.push(text);
        wait.add({ type: 'collecting' });
      } else if (!stop.aborted) {
        wait.add({ type: 'answering' });
        thoughts.end();
        return printer.append(text);
      }
      return undefined;
    },
    onTargetChange: (from, why, to) => {
      isMoving = true;
      if (!json) note(oneLine(`${prefixProvider(from, why)}; continuing with ${to}`));
    },
    onToolEvent: (_, type, { call, approval, text }) => {
      if (approval === 'ask') asked.add(call);
      else if (type !== 'run.tool_reported') asked.delete(call);
      // The line would come between a question and its answer.
      const isShown = type === 'run.tool_reported' && asked.size === 0;
      wait.add(isShown ? { type: 'reported', text: String(text) } : { type: 'calling' });
      if (type !== 'run.turn_completed') return undefined;
      // The next turn of the model begins a paragraph. At its end, the last turn is the answer.
      if (hadOutput && printer !== null && !stop.aborted) return printer.append('\n\n');
      collected = [];
      return undefined;
    },
    onAttemptFailed: (failed) => {
      isMoving = true;
      wait.add({ type: 'failed', ...failed });
    },
    onDiscard: () => {
      // After a failure without output nothing is void, and the failure is printed already.
      collected = [];
      if (!json && !isMoving) note('The answer starts again.');
      isMoving = false;
    },
    onQueuePosition: (position) => wait.add({ type: 'placed', position }),
    onDisconnect: () => wait.add({ type: 'lost' }),
    onReconnect: () => wait.add({ type: 'connected' }),
    onEnd: () => {
      wait.add({ type: 'ended' });
      thoughts.end();
    },
    unprintedOf: (record) => (hadOutput ? collected.join('') : record.output),
    get hasText() {
      return hadOutput;
    },
    get maxTokens() {
      return maxTokens;
    },
  };
}

/** Whether the answer is complete and is text. An empty text is printed as an empty line. */
export function isAnswered({ state, output, output_parts }: Run): boolean {
  return state === 'completed' && (output !== '' || output_parts === undefined);
}

/** The sentence for a complete answer without text. */
function explainSilence({ provider, finish_reason, output_parts = [] }: Run): string {
  const names = output_parts.flatMap((part) => (part.type === 'tool_call' ? [part.name] : []));
  if (names.length > 0)
    return (
      `The model called ${names.length === 1 ? 'the tool' : 'the tools'} ` +
      `${names.join(', ')}, and gave no text.`
    );
  if (output_parts.some(({ type }) => type === 'refusal')) return 'The model refused to answer.';
  if (output_parts.length > 0) return 'The model wrote only its reasoning, and no answer.';
  return `${provider} answered without any text (it ended with ${finish_reason ?? 'no reason'}).`;
}

interface Finished {
  record: Run;
  /** The answer as --json shows it. */
  output: string;
  json: boolean;
  stdout: StdoutStream;
  interrupted: boolean;
  /** Show how long it took. */
  stats?: boolean;
  /** Whether the answer has text, although the record may have none. */
  hasText: boolean;
  maxTokens: Printing['maxTokens'];
}

export function finish({ record, output, json, stdout, interrupted, ...seen }: Finished): number {
  if (stdout.gone.aborted) return 0;
  const stats = seen.stats === true ? statsOf(record) : null;
  if (json) printJson({ ...record, output, ...(stats === null ? {} : { stats }) });
  const { exit, error } = endingOf(record, seen);
  if (!json && error === null && isCutAsAsked(record, seen.maxTokens))
    note(oneLine(cutAsAsked(seen.maxTokens)));
  // After Ctrl-C a hint is noise.
  if (interrupted && !json && error?.code === 'run_cancelled') note(oneLine(error.message));
  else if (error !== null) printError(error, json);
  if (stats !== null && !json) note(paint('dim', statsText(stats), 2));
  return exit;
}

interface Ending {
  exit: number;
  error: SvcError | null;
}

/** The exit code of a finished run, and its error. */
export function endingOf(run: Run, seen: Pick<Finished, 'hasText' | 'maxTokens'>): Ending {
  const { id, state, error, output } = run;
  if (state === 'completed') {
    const flaw = flawOf(run, seen);
    return { exit: flaw?.spec.exit ?? 0, error: flaw };
  }
  const code = END_ERROR[state as keyof typeof END_ERROR] ?? 'provider_failed';
  const cause = withTypedHint(error === null ? new SvcError(code) : fromBody(error), 'run');
  const isKept = output !== '' && !cause.message.includes(KEPT);
  const shown = new SvcError(cause.code, isKept ? `${cause.message} ${KEPT}` : cause.message, {
    hint: output === '' ? cause.hint : `See: svc runs show ${id}`,
  });
  // Every other end has one exit code for all its causes.
  const { spec } = code === 'provider_failed' ? cause : new SvcError(code);
  return { exit: spec.exit, error: shown };
}

/** Some causes say it themselves. */
const KEPT = 'The text so far is kept.';

/** The error for a flawed complete answer. Null: it has no flaw. */
function flawOf(
  run: Run,
  { hasText, maxTokens }: Pick<Finished, 'hasText' | 'maxTokens'>,
): SvcError | null {
  const { id, provider, finish_reason, output } = run;
  const isBroken = run.response_format != null && output !== '' && !isJson(output);
  if (finish_reason === 'content_filter')
    return new SvcError('content_filtered', `The content filter of ${provider} cut the answer.`);
  if (finish_reason === 'repetition')
    return new SvcError(
      'answer_cut',
      `The model repeats itself without end, so ${provider} ended the answer.`,
      {
        hint:
          'Ask in other words, add --repeat-penalty 1.1, or let it continue: ' +
          '--repetition-tokens 0',
      },
    );
  if (finish_reason === 'length' && !isCutAsAsked(run, maxTokens)) {
    const { output_tokens } = run.usage;
    const after = output_tokens === null ? '' : ` after ${output_tokens} tokens`;
    const message =
      `${provider} cut the answer${after}: the context of the model, or its longest answer, ` +
      'is reached.';
    return new SvcError('answer_cut', message);
  }
  if (isBroken && finish_reason === 'length')
    return new SvcError('answer_cut', `${cutAsAsked(maxTokens)} It is not complete JSON.`, {
      hint: 'Give it more tokens: --max-tokens.',
    });
  const misfit = formError(run);
  if (misfit !== null) return misfit;
  if (hasText || output !== '') return null;
  const hint = `Ask again, or in other words. See: svc runs show ${id}`;
  return new SvcError('answer_empty', explainSilence(run), { hint });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether an answer ends where --max-tokens says. Providers may not count its last token. */
function isCutAsAsked({ state, finish_reason, usage }: Run, maxTokens: Printing['maxTokens']) {
  if (state !== 'completed' || finish_reason !== 'length' || maxTokens === null) return false;
  const { output_tokens } = usage;
  return maxTokens === undefined || output_tokens === null || output_tokens + 1 >= maxTokens;
}

function cutAsAsked(maxTokens: Printing['maxTokens']): string {
  const bound = maxTokens == null ? 'its longest length' : `--max-tokens ${maxTokens}`;
  return `The answer ends at ${bound}, so it may be incomplete.`;
}

/** The error of an end without an answer, if the run names none. */
const END_ERROR = {
  cancelled: 'run_cancelled',
  timed_out: 'run_timed_out',
  interrupted: 'run_interrupted',
  failed: 'provider_failed',
} as const satisfies Record<Exclude<RunEnd, 'completed'>, ErrorCode>;

/**
 * The thoughts of the model before its answer, dim on stderr. Only a terminal shows them:
 * elsewhere they would be mixed with messages. The record of the run keeps them.
 *
 * 1. Line breaks at the end wait in `breaks` until more text follows.
 * 2. `midLine` is true from a text until its line is left. Later text begins on a new line.
 * 3. `begun` is true from the first text until the answer follows.
 */
class Thoughts {
  private readonly isShown: boolean;
  private readonly breaks = new LineBreaks();
  private begun = false;
  private midLine = false;

  constructor(wanted: boolean) {
    this.isShown = wanted && isTerminal(2);
  }

  append(text: string): void {
    if (!this.isShown) return;
    const body = this.breaks.follow(text);
    if (body === '') return;
    this.begun = true;
    this.midLine = true;
    writeError(paint('dim', toPlain(body), 2));
  }

  /** The answer follows, after an empty line if the same terminal shows it. */
  end(): void {
    if (!this.begun) return;
    this.leaveLine();
    if (isTerminal(1)) writeError('\n');
    this.begun = false;
    this.breaks.drop();
  }

  leaveLine(): void {
    if (this.midLine) writeError('\n');
    this.midLine = false;
  }
}

/** Keeps line breaks at the end of a text until more text follows. */
class LineBreaks {
  private kept = '';

  /** The text with the breaks before it, and without those at its end. */
  follow(text: string): string {
    const whole = this.kept + text;
    const body = whole.replace(/\n+$/, '');
    this.kept = whole.slice(body.length);
    return body;
  }

  drop(): void {
    this.kept = '';
  }
}
