import { approvalId } from '../../contract/messages/parts.ts';
import type { Paths } from '../../home/paths.ts';
import { asRecord } from '../../json.ts';
import { oneLine } from '../../logs/plain.ts';
import { terminalColumns } from '../../logs/width.ts';
import { callText, firstLines, joinParts } from '../approvals/call-text.ts';
import { alwaysText } from '../approvals/decide.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import { isTerminal, note, paint } from '../terminal/print/output.ts';
import { askUser } from '../terminal/print/question.ts';

/**
 * Prints the tool calls of a run on stderr. At a terminal the user is asked about a call that
 * needs an approval; the answer may also come from another client.
 */
export class ToolLines {
  private readonly paths: Paths;
  private readonly names = new Map<number, string>();
  private readonly open = new Map<number, AbortController>();
  /** One question at a time. */
  private asked: Promise<void> = Promise.resolve();

  constructor(paths: Paths) {
    this.paths = paths;
  }

  /** Takes an event of a call. */
  hear(run_id: string, type: string, data: Record<string, unknown>): void {
    const call = Number(data.call);
    const id = approvalId(run_id, call);
    const name = this.names.get(call) ?? 'The tool';
    if (type === 'run.tool_requested') {
      const tool = `${data.server}/${data.tool}`;
      this.names.set(call, tool);
      if (data.approval === 'ask') this.ask(call, id, tool);
      return;
    }
    this.open.get(call)?.abort();
    if (type === 'run.tool_started') note(paint('dim', oneLine(`${name} works`), 2));
    if (type === 'run.tool_denied')
      note(oneLine(`${name} was not called (by ${data.by}): ${data.reason}`));
    if (type === 'run.tool_lost') {
      const { code, message } = asRecord(data.error);
      const cutOff = `${name} was cut off, and may have done its work.`;
      const what = code === 'tool_given_up' ? message : cutOff;
      note(oneLine(`${what} Decide: svc approvals show ${id}`));
    }
  }

  /** No question stays open. */
  close(): void {
    for (const abort of this.open.values()) abort.abort();
  }

  private ask(call: number, id: string, tool: string): void {
    if (!isTerminal(0) || !isTerminal(2)) {
      note(oneLine(`The model wants to call ${tool}. Allow it: svc approvals allow ${id}`));
      return;
    }
    const abort = new AbortController();
    this.open.set(call, abort);
    this.asked = this.asked
      .then(() => this.question(id, tool, abort.signal))
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        const { message } = error as Error;
        note(oneLine(`${message} To decide about ${tool}: svc approvals show ${id}`));
      })
      .finally(() => this.open.delete(call));
  }

  /** The question shows the call. The end of the input is a no. */
  private async question(id: string, tool: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const call = await askDaemon(this.paths, 'approval.get', { id });
    const columns = terminalColumns(process.stderr);
    const { target, description, changes, arguments: args } = callText(call, columns);
    note(joinParts(target, firstLines(changes || args, LINES)));
    const text = `The model wants to call ${oneLine(tool)}. Allow it?`;
    for (;;) {
      const answers = Object.keys(DECISIONS);
      const answer = await askUser({ text, answers, end: 'no', signal });
      if (answer === null) return;
      const decision = DECISIONS[answer];
      if (decision == null) note(joinParts(target, description, changes, args));
      else {
        const decided = await askDaemon(this.paths, 'approval.decide', { id, ...decision });
        if (answer === 'always') note(alwaysText(decided));
        return;
      }
    }
  }
}

/** Lines of the arguments or the diff that come with the question. */
const LINES = 20;

type Decision = { decision: 'allow' | 'deny'; always?: true };
/** By the answer. Null: the question comes again, after the whole call. */
const DECISIONS: Readonly<Record<string, Decision | null>> = {
  yes: { decision: 'allow' },
  no: { decision: 'deny' },
  always: { decision: 'allow', always: true },
  show: null,
};
