import { approvalId } from '../../../machines/messages.ts';
import type { Paths } from '../../home/paths.ts';
import { asRecord } from '../../json.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { foreignJson, foreignText } from '../print/foreign.ts';
import { isTerminal, note, paint } from '../print/output.ts';

/**
 * What a user sees of the tools that svc calls for a run, on stderr. At a terminal a call that
 * needs an approval is asked about; the answer may also come from another client.
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
      const says = typeof data.description === 'string' ? `${foreignText(data.description)}\n` : '';
      this.names.set(call, tool);
      if (data.approval === 'ask')
        this.ask(call, id, tool, says + foreignJson(String(data.arguments)));
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

  private ask(call: number, id: string, tool: string, whole: string): void {
    if (!isTerminal(0) || !isTerminal(2)) {
      note(oneLine(`The model wants to call ${tool}. Allow it: svc approvals allow ${id}`));
      return;
    }
    const abort = new AbortController();
    this.open.set(call, abort);
    this.asked = this.asked
      .then(() => this.question(id, tool, whole, abort.signal))
      .catch((error: unknown) => {
        if (!abort.signal.aborted) note(oneLine((error as Error).message));
      })
      .finally(() => this.open.delete(call));
  }

  private async question(
    id: string,
    tool: string,
    whole: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { createInterface } = await import('node:readline/promises');
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    const text = `The model wants to call ${oneLine(tool)}. Allow it? (yes, no, always, show) `;
    try {
      for (;;) {
        const answer = (await terminal.question(text, { signal })).trim().toLowerCase();
        if (answer === 's' || answer === 'show') note(whole);
        else if (answer !== '' && DECISIONS[answer[0] ?? ''] !== undefined) {
          const decision = { id, ...DECISIONS[answer[0] ?? ''] } as const;
          await askDaemon(this.paths, 'approval.decide', decision as never);
          return;
        }
      }
    } finally {
      terminal.close();
    }
  }
}

const DECISIONS: Readonly<Record<string, object>> = {
  y: { decision: 'allow' },
  n: { decision: 'deny' },
  a: { decision: 'allow', always: true },
};
