import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/client';

/** Why svc refuses a request of a server to its client. Each begins a sentence. */
const REFUSED: Readonly<Record<string, string>> = {
  'elicitation/create':
    'svc asks no one for a server (elicitation). Take the values as arguments of the tool.',
  'sampling/createMessage': 'svc lends no model to a server (sampling).',
  'roots/list': 'svc names no folders to a server (roots). Take them as arguments of its command.',
};

/** The answer to a request of a server: an error that names the refused method. */
export function refusalOf(method: string): ProtocolError {
  const words = Object.hasOwn(REFUSED, method) ? REFUSED[method] : undefined;
  return new ProtocolError(ProtocolErrorCode.MethodNotFound, words ?? 'Method not found');
}
