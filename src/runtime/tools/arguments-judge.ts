import { hash } from 'node:crypto';
import { extname } from 'node:path';
import { type Excess, ForeignWork, PROCESS_BYTES } from '../../async/foreign-work.ts';
import { excessOf } from '../../json.ts';
import { jsonBudgets, type Limits } from '../../limits.ts';
import type { Judging } from './arguments.ts';

/** What is wrong with a call. Null: nothing. */
export interface Verdict {
  /** In words for the model. */
  problem: string | null;
  /** The tool is to blame, and the model may write what it wants. */
  isOfTool?: boolean;
}

export interface ArgumentsJudge {
  /** Throws descriptors_exhausted, busy. */
  judge(
    written: string,
    tool: { name: string; server: string; schema: Readonly<Record<string, unknown>> },
  ): Promise<Verdict>;
  /** A call is likely soon. */
  warm(): void;
}

type JudgeLimits = Pick<
  Limits,
  'tool_judge_ms' | 'tool_judge_bytes' | 'tool_judges' | 'tool_judge_idle_ms' | 'tool_problem_chars'
>;

/**
 * Judges the arguments of calls in other processes. A schema that exceeds a bound costs its call.
 * It is not tried again while its digest is known.
 */
export class SeparateJudge implements ArgumentsJudge {
  private readonly limits: JudgeLimits;
  private readonly work: ForeignWork<Judging, string | null>;
  private readonly costly = new Map<string, Excess>();

  constructor(limits: JudgeLimits) {
    this.limits = limits;
    this.work = new ForeignWork({
      entry: ENTRY,
      heap_bytes: limits.tool_judge_bytes,
      memory_bytes: PROCESS_BYTES + limits.tool_judge_bytes,
      places: limits.tool_judges,
      idle_ms: limits.tool_judge_idle_ms,
    });
  }

  warm(): void {
    this.work.warm();
  }

  async judge(...[written, { name, server, schema }]: Parameters<ArgumentsJudge['judge']>) {
    const { tool_judge_ms: ms, tool_problem_chars } = this.limits;
    const excess = excessOf(written, jsonBudgets.foreign);
    if (excess !== null) return { problem: `The arguments have ${excess.message}.` };
    const json = JSON.stringify(schema);
    const key = hash('sha256', json);
    const known = this.costly.get(key);
    if (known !== undefined) return this.refused(name, known);
    const question = { written, schema: json, characters: tool_problem_chars };
    const outcome = await this.work.ask(question, { ms, owner: server });
    if (outcome.excess === undefined) return { problem: outcome.answer };
    this.costly.set(key, outcome.excess);
    const [oldest] = this.costly.keys();
    if (this.costly.size > COSTLY_MAX && oldest !== undefined) this.costly.delete(oldest);
    return this.refused(name, outcome.excess);
  }

  private refused(name: string, excess: Excess): Verdict {
    const why = {
      time: `needs more than ${this.limits.tool_judge_ms} ms`,
      memory: 'needs too much memory',
      crash: 'ends the process that tries it',
    }[excess];
    return {
      problem: `The schema of ${name} ${why}, so no call of it is carried out.`,
      isOfTool: true,
    };
  }
}

/** Schemas that exceeded a bound, by their digest. */
const COSTLY_MAX = 256;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./arguments-worker${extname(import.meta.url)}`, import.meta.url);
