import * as v from 'valibot';
import {
  type ApprovalChanges,
  approval,
  approvalChanges,
  approvalList,
  decisionInput,
  newestOf,
} from '../contract/approvals.ts';
import type { EventRecord, NextTurn, RunRecord, RunWait } from '../contract/contract.ts';
import { conversationPage } from '../contract/conversation-page.ts';
import { runWhy } from '../contract/history.ts';
import { nextInput, runListInput, runSearchInput } from '../contract/inputs.ts';
import { removedRun, run, runInput, runPage, searchPage } from '../contract/run.ts';
import { conversationUsage } from '../contract/usage.ts';
import { count, flag, name, text, wholeFrom } from '../contract/vocabulary.ts';
import {
  APPROVALS_MAX,
  approvalListQuery,
  atQuery,
  conversationListQuery,
  fromQuery,
  noQuery,
  runListQuery,
  runSearchQuery,
} from './query.ts';
import { operation, transportOperation } from './row.ts';

/**
 * The operations on runs and conversations. The local socket also takes `last`, or the beginning of
 * an id, where a run is named.
 */

const one = v.object({ id: name() });

/** The fields that a model may set of a run that it starts. */
const question = v.pick(runInput, [
  'system',
  'model',
  'provider',
  'max_tokens',
  'temperature',
  'conversation',
]);

export const runOperations = {
  'run.start': transportOperation<RunRecord, { run: RunRecord } | RunWait | EventRecord>()({
    summary: 'Starts a run: 202 with its record, or its events with Accept: text/event-stream.',
    answers:
      'the run. With `stream`: first `{run}`, then its events, `{queue_position}` and `{loading}`',
    /** A RunInput. `traceparent` is the span of the client. */
    params: v.looseObject({ stream: v.nullish(flag), traceparent: v.nullish(text) }),
    streams: true,
    access: 'run',
    http: 'POST /v1/runs',
    tool: {
      name: 'ask',
      says: 'Asks a local or cloud model. The text ends with the id of the run.',
      params: v.object({ prompt: text, ...question.entries }),
      fixed: { stream: true, cancel_on_disconnect: true },
    },
    grpc: {
      rpc: 'Run',
      answer: 'RunUpdate',
      says: [
        'Starts a run and streams it to its end. The initial metadata has `svc-run-id`.',
        'The run is cancelled when the call is cancelled or its connection breaks, unless ' +
          '`detach` is set. The deadline of the call bounds the time of the run. A run that does ' +
          'not complete ends the call with the status of its error, after `ended`.',
        'A stream without `ended` was cut off. Attach continues after the last `seq`. When the ' +
          'daemon stops, streams end with UNAVAILABLE and the run is not cancelled.',
      ],
    },
  }),
  'run.follow': transportOperation<RunRecord, RunWait | EventRecord>()({
    summary: 'The events of a run as they happen; Last-Event-ID resumes.',
    answers: 'the same events of the run from a position on, then the run',
    params: v.object({ id: name(), from_seq: v.nullish(count, 0) }),
    streams: true,
    large: true,
    access: 'sees run',
    http: 'GET /v1/runs/:id/events',
    query: fromQuery,
    grpc: {
      rpc: 'Attach',
      answer: 'RunUpdate',
      request: {
        id: 1,
        from_seq: {
          id: 2,
          type: 'uint64',
          says: 'The first position to send. Absent: the beginning of the run.',
        },
      },
      says: [
        'Streams a run from a position of the log to its end, as Run does. A position after the ' +
          'end of the run gives an empty stream. The run continues when the call ends.',
      ],
    },
  }),
  // Before `run.get`, whose route has a parameter at the same place.
  'run.search': operation({
    summary: 'Finished runs with these words, newest first, each with a snippet.',
    params: v.object(runSearchInput),
    result: searchPage,
    access: 'own',
    method: 'runs.search',
    http: 'GET /v1/runs/search',
    query: runSearchQuery,
    tool: { name: 'search_runs' },
    grpc: {
      rpc: 'Search',
      answer: 'SearchPage',
      request: {
        words: { id: 1, says: 'Words, or several words in quotes.' },
        limit: { id: 2, says: 'Absent: 20.' },
        before: {
          id: 3,
          says: 'The page starts with the run before this one: `next` of the page before.',
        },
      },
    },
    call: ({ runtime }, query) => runtime.runs.search(query),
  }),
  'run.get': operation({
    summary: 'One run; with `?at=<seq>` as it was after that event.',
    answers: 'the run; with `at` as it was after that event',
    params: v.object({ id: name(), at: v.nullish(count) }),
    result: run,
    large: true,
    access: 'sees run',
    method: 'runs.show',
    http: 'GET /v1/runs/:id',
    tool: { name: 'show_run', says: 'One run: its request and its answer.', params: one },
    query: atQuery,
    grpc: {
      rpc: 'Get',
      answer: 'RunRecord',
      request: { id: 1 },
      says: ['One run with its request and its answer.'],
    },
    call: async ({ runtime }, { id, at }) =>
      at === undefined ? runtime.runs.show(id) : runtime.history.runAt(id, at),
  }),
  'run.list': operation({
    summary: 'The latest runs, newest first; `next` leads to the next page.',
    answers: 'one page of runs, with the beginning of long texts; `texts: "whole"` has all of them',
    params: v.object(runListInput),
    result: runPage,
    large: true,
    access: 'own',
    method: 'runs.list',
    http: 'GET /v1/runs',
    query: ({ page_runs }) => runListQuery(page_runs),
    tool: { name: 'list_runs', fixed: { texts: 'short' } },
    grpc: {
      rpc: 'List',
      answer: 'RunPage',
      request: {
        limit: { id: 1, says: 'Absent: 20.' },
        before: {
          id: 2,
          says: 'The page starts with the run before this one: `next` of the page before.',
        },
        state: { id: 3, says: 'Only runs in this state.' },
        provider: { id: 4, says: 'Only runs of this provider.' },
        whole_texts: {
          id: 5,
          type: 'bool',
          says: 'Whole texts. Otherwise long texts are cut, and their run is `shortened`.',
        },
        cloud: { id: 6, says: 'Only runs whose prompt left this machine.' },
        conversation: { id: 7, says: 'Only runs of the conversation of this run.' },
        model: { id: 8, says: 'Only runs of the model of this name.' },
      },
    },
    call: ({ runtime }, query) => runtime.runs.list(query),
  }),
  'conversation.list': operation({
    summary: 'The latest conversations, with their titles; `next` leads to the next page.',
    params: v.object({
      limit: v.nullish(count),
      before: v.nullish(text),
      conversation: v.nullish(text),
    }),
    result: conversationPage,
    access: 'own',
    method: 'runs.listConversations',
    http: 'GET /v1/conversations',
    query: ({ page_runs }) => conversationListQuery(page_runs),
    call: ({ runtime }, query) => runtime.runs.listConversations(query),
  }),
  'conversation.usage': operation({
    summary: 'Runs and tokens of one conversation.',
    params: one,
    result: conversationUsage,
    access: 'sees conversation',
    method: 'runs.usageOf',
    http: 'GET /v1/conversations/:id/usage',
    query: noQuery,
    grpc: {
      rpc: 'ConversationUsage',
      answer: 'UsageOfConversation',
      request: { id: { id: 1, says: 'The conversation, or any of its runs.' } },
      fields: {
        conversation: 1,
        runs: { id: 2, says: 'Those that have ended.' },
        input_tokens: 3,
        output_tokens: 4,
        cached_tokens: { id: 5, says: 'Input tokens that providers had in their caches.' },
        unknown: { id: 6, says: 'Runs whose provider did not say all numbers.' },
      },
    },
    call: ({ runtime }, { id }) => runtime.runs.usageOf(id),
  }),
  'run.remove': operation({
    summary: 'Removes a finished run from the log.',
    answers:
      '`removed`: the id of the run that is no longer in the log; `trouble`: why its texts may ' +
      'still be',
    params: one,
    result: removedRun,
    access: 'changes run',
    method: 'runs.remove',
    http: 'DELETE /v1/runs/:id',
    grpc: {
      rpc: 'Remove',
      answer: 'RemoveAnswer',
      request: { id: 1 },
      says: [
        'Removes a finished run and its words from the log. A run with later turns is not ' +
          'removed, since they repeat its texts.',
      ],
    },
    call: async ({ runtime }, { id }) => ({ removed: id, ...(await runtime.runs.remove(id)) }),
  }),
  'run.cancel': operation({
    summary: 'Cancels a run; answers when the work has stopped.',
    answers: 'the run, once its work has stopped',
    params: one,
    result: run,
    access: 'changes run',
    method: 'runs.cancel',
    http: 'POST /v1/runs/:id/cancel',
    grpc: { rpc: 'Cancel', answer: 'RunRecord', request: { id: 1 } },
    call: ({ runtime, by }, { id }) => runtime.runs.cancel(id, by),
  }),
  'approval.list': operation({
    summary: 'The calls of tools that wait for a person, the oldest first.',
    params: v.object({ limit: v.nullish(wholeFrom(1, APPROVALS_MAX)) }),
    result: approvalList,
    access: 'approve',
    method: 'approvals.list',
    http: 'GET /v1/approvals',
    query: approvalListQuery,
    grpc: {
      rpc: 'Approvals',
      answer: 'ApprovalList',
      request: { limit: { id: 1, says: 'The newest ones alone. Absent: all.' } },
      fields: {
        approvals: { id: 1, type: 'Approval' },
        older: { id: 2, says: 'How many older calls wait too. Absent: none.' },
      },
    },
    call: ({ runtime }, { limit }) => newestOf(runtime.approvals.list(), limit ?? APPROVALS_MAX),
  }),
  // Before `approval.get`, whose route has a parameter at the same place.
  'approval.watch': transportOperation<null, ApprovalChanges>()({
    summary: 'The newest 100 calls that wait for a person, then each change of them.',
    result: approvalChanges,
    streams: true,
    access: 'approve',
    method: 'approvals.watch',
    http: 'GET /v1/approvals/events',
    query: noQuery,
    grpc: {
      rpc: 'WatchApprovals',
      answer: 'ApprovalChanges',
      request: {},
      fields: {
        approvals: {
          id: 1,
          type: 'Approval',
          says: 'First all of them, then what is new or has changed. `since` is their order.',
        },
        older: { id: 2, says: 'How many older calls wait besides. Absent: none.' },
        removed: { id: 3, says: 'Ids of calls that are not among them any more.' },
      },
    },
  }),
  'approval.get': operation({
    summary: 'One call that waits for a person, with its whole arguments.',
    params: one,
    result: approval,
    access: 'approve',
    method: 'approvals.get',
    http: 'GET /v1/approvals/:id',
    query: noQuery,
    grpc: {
      rpc: 'GetApproval',
      answer: 'Approval',
      request: { id: 1 },
      fields: {
        id: 1,
        run: 2,
        server: 3,
        tool: 4,
        description: { id: 5, says: 'What the tool says of itself.' },
        arguments: { id: 6, says: 'JSON as the model wrote it.' },
        state: {
          id: 7,
          says:
            '`requested`: it waits to be allowed. `lost`: it was cut off, and its result is not ' +
            'known.',
        },
        since: 8,
        until: { id: 9, says: 'When it is denied. Absent: the call waits as long as its run.' },
        target: { id: 10, says: 'The program with its arguments, or the address, of the server.' },
        changes: { id: 11, says: 'What a call of svc:files changes, as a diff; of GetApproval.' },
        report: { id: 12, says: 'The last words of the server about a call that was cut off.' },
      },
    },
    call: ({ runtime }, { id }) => runtime.approvals.get(id),
  }),
  'approval.decide': operation({
    summary: 'Decides about a call of a tool that waits for a person.',
    answers: 'the call as it is after the decision',
    params: decisionInput,
    result: approval,
    access: 'decides',
    method: 'approvals.decide',
    http: 'POST /v1/approvals/:id',
    grpc: {
      rpc: 'Decide',
      answer: 'Approval',
      request: {
        id: 1,
        decision: {
          id: 2,
          says: '`allow` or `deny` a call that waits; else `repeat`, `result` or `skip`.',
        },
        reason: { id: 3, says: 'Why it is denied, for the model.' },
        always: {
          id: 4,
          says: 'The configuration allows the tool from now on. Needs the scope `admin`.',
        },
        result: { id: 5, says: 'What the tool answered, for `result`.' },
      },
    },
    call: ({ runtime, by }, { id, ...decision }) => runtime.approvals.decide(id, decision, by),
  }),
  'run.why': operation({
    summary: 'Explains the state of a run: its events, and the same in sentences.',
    params: one,
    result: runWhy,
    large: true,
    access: 'sees run',
    method: 'history.whyRun',
    http: 'GET /v1/runs/:id/why',
    query: noQuery,
    tool: { name: 'why_run' },
    call: ({ runtime }, { id }) => runtime.history.whyRun(id),
  }),
  'run.find': operation({
    answers: '`id`: the whole id of a run that is given as `last` or by its beginning',
    params: one,
    access: 'any',
    call: async ({ runtime }, { id }) => ({ id: await runtime.runs.find(id) }),
  }),
  'run.next': operation({
    answers: 'who would answer: `provider`, `model`, `cloud`; the `conversation` it continues',
    params: v.object(nextInput),
    access: 'any',
    call: async ({ runtime }, { conversation, ...input }): Promise<NextTurn> =>
      runtime.models.next(
        conversation === undefined
          ? input
          : await runtime.runs.conversations.peek({ ...input, conversation }),
      ),
  }),
};
