import { errorAnswer } from '../../contract/records.ts';
import { SvcError } from '../../errors.ts';
import { eventQuery, logQuery } from '../query.ts';
import { type Route, route } from './route.ts';

/** What WebSockets are opened with. Another request to these targets is refused. */
export const socketRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/events',
    access: 'token',
    scope: 'read',
    summary: 'WebSocket: the event log, from a position or as it grows.',
    query: eventQuery,
    answers: { 101: null, 426: errorAnswer },
    answer: refusePlain,
  }),
  route({
    method: 'GET',
    path: '/v1/logs',
    access: 'token',
    scope: 'read',
    summary: 'WebSocket: the last log lines, and new ones as they are written.',
    query: ({ log_tail_lines }) => logQuery(log_tail_lines),
    answers: { 101: null, 426: errorAnswer },
    answer: refusePlain,
  }),
];

function refusePlain(): never {
  throw new SvcError('upgrade_required');
}
