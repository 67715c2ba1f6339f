import { hash } from 'node:crypto';
import { extname } from 'node:path';
import { type Excess, ForeignWork, type Outcome, PROCESS_BYTES } from '../../async/foreign-work.ts';
import { setNewest } from '../../async/newest.ts';
import { excessOf } from '../../json.ts';
import { jsonBudgets, type Limits } from '../../limits.ts';
import type { Question } from './worker.ts';

/** The problem with a call. Null: it has no problem. */
export interface Verdict {
  /** In words for the model. */
  problem: string | null;
  /** The tool is to blame, and the model may write what it wants. */
  isOfTool?: boolean;
}

/** A form of an answer, and the schema, pattern or grammar of that form. */
export interface AskedForm {
  about: Exclude<Question['about'], 'arguments'>;
  form: unknown;
}

export interface AnswerJudge {
  /** In words for the client, why an answer does not fit its form. Null: it fits. */
  compare(written: string, form: AskedForm, owner: string): Promise<string | null>;
  warmUp(): void;
}

export interface ArgumentsJudge {
  /** Throws descriptors_exhausted, busy. */
  judge(
    written: string,
    tool: { name: string; server: string; schema: Readonly<Record<string, unknown>> },
  ): Promise<Verdict>;
  /** A call is likely soon. */
  warmUp(): void;
}

type JudgeLimits = Pick<
  Limits,
  'tool_judge_ms' | 'tool_judge_bytes' | 'tool_judges' | 'tool_judge_idle_ms' | 'tool_problem_chars'
>;

/**
 * Judges arguments of calls and answers in other processes. A schema that exceeds a bound costs its
 * call, or its answer. It is not tried again while its digest is known.
 */
export class SeparateJudge implements ArgumentsJudge, AnswerJudge {
  private readonly limits: JudgeLimits;
  private readonly work: ForeignWork<Question, string | null>;
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

  warmUp(): void {
    this.work.warm();
  }

  async judge(...[written, { name, server, schema }]: Parameters<ArgumentsJudge['judge']>) {
    const excess = excessOf(written, jsonBudgets.foreign);
    if (excess !== null) return { problem: `The arguments have ${excess.message}.` };
    const outcome = await this.ask('arguments', written, schema, server);
    if (outcome.excess === undefined) return { problem: outcome.answer };
    const why = this.why(outcome.excess);
    const problem = `The schema of ${name} ${why}, so no call of it is carried out.`;
    return { problem, isOfTool: true };
  }

  async compare(...[written, { about, form }, owner]: Parameters<AnswerJudge['compare']>) {
    const excess = about === 'schema' ? excessOf(written, jsonBudgets.foreign) : null;
    if (excess !== null) return `It has ${excess.message}, too many to compare.`;
    const outcome = await this.ask(about, written, form, `answers of ${owner}`);
    if (outcome.excess === undefined) return outcome.answer;
    return `The ${about} ${this.why(outcome.excess)}, so the answer cannot be compared with it.`;
  }

  private async ask(
    about: Question['about'],
    written: string,
    schema: unknown,
    owner: string,
  ): Promise<Outcome<string | null>> {
    const { tool_judge_ms: ms, tool_problem_chars: characters } = this.limits;
    const json = JSON.stringify(schema);
    const key = hash('sha256', about + json);
    const known = this.costly.get(key);
    if (known !== undefined) return { excess: known };
    const question = { about, written, schema: json, characters };
    const outcome = await this.work.ask(question, { ms, owner });
    if (outcome.excess === undefined) return outcome;
    setNewest(this.costly, key, outcome.excess, COSTLY_MAX);
    return outcome;
  }

  private why(excess: Excess): string {
    return {
      time: `needs more than ${this.limits.tool_judge_ms} ms`,
      memory: 'needs too much memory',
      crash: 'ends the process that tries it',
    }[excess];
  }
}

/** Schemas that exceeded a bound, by their digest. */
const COSTLY_MAX = 256;
/** In the same folder in the sources and in the build. */
const ENTRY = new URL(`./worker${extname(import.meta.url)}`, import.meta.url);
