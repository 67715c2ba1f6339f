import * as v from 'valibot';
import type { WithoutNull } from './check.ts';
import { orNull } from './records.ts';
import { flag, name, named, object, oneOf, text, time, whole } from './vocabulary.ts';

/** Calls that wait for a person, and the decisions about them. */

export const approval = named(
  'Approval',
  object({
    id: text,
    run: text,
    server: text,
    tool: text,
    /**
     * The program with its arguments, the address, or what a server of svc may reach, as the
     * configuration has it now. Null: the configuration has no such server.
     */
    target: orNull(text),
    /**
     * The description of the tool. Null: it has no description, or the log is older than this
     * field.
     */
    description: orNull(text),
    /** JSON as the model wrote it. */
    arguments: text,
    /**
     * What a `write` or an `edit` of `svc:files` changes, as a diff. Null: it is another call, it
     * is in a list, or its diff is too large.
     */
    changes: orNull(text),
    /** `requested`: it waits to be allowed. `lost`: it was cut off, and its result is not known. */
    state: text,
    since: time,
    /** When it is denied. Null: the call waits as long as its run. */
    until: orNull(time),
    /** The last words of the server about a call that was cut off. */
    report: v.exactOptional(text),
  }),
);
export type ApprovalRecord = v.InferOutput<typeof approval>;

export const approvalList = named(
  'ApprovalList',
  object({
    approvals: v.array(approval),
    /** How many older calls wait too, which the list leaves out. Absent: none. */
    older: v.exactOptional(whole),
  }),
);
export type ApprovalList = v.InferOutput<typeof approvalList>;

/** The changes among the newest calls that wait. The first message has all of them. */
export const approvalChanges = named(
  'ApprovalChanges',
  object({
    /** Calls that are new among them, or have changed. `since` is their order. */
    approvals: v.array(approval),
    /** Ids of calls that are not among them any more. Absent: none. */
    removed: v.exactOptional(v.array(text)),
    /** How many older calls wait now, which are not among them. Absent: none. */
    older: v.exactOptional(whole),
  }),
);
export type ApprovalChanges = v.InferOutput<typeof approvalChanges>;

/** The newest of a list whose oldest is the first. */
export function newestOf(all: ApprovalRecord[], limit: number): ApprovalList {
  const approvals = all.slice(-limit);
  const older = all.length - approvals.length;
  return older === 0 ? { approvals } : { approvals, older };
}

export const decisionInput = v.object({
  id: name(),
  /** `allow` or `deny` a call that waits; `repeat`, `result` or `skip` an interrupted call. */
  decision: oneOf(['allow', 'deny', 'repeat', 'result', 'skip']),
  reason: v.nullish(name(1000)),
  /** The configuration allows the tool from now on. */
  always: v.nullish(flag),
  /** What the tool answered. */
  result: v.nullish(text),
});
export type DecisionInput = WithoutNull<v.InferOutput<typeof decisionInput>>;
