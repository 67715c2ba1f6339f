import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Answer } from './http/boot.ts';

// biome-ignore lint/suspicious/noExplicitAny: a document is walked as it comes
export type Document = any;

/** Checks values and answers against an OpenAPI document. */
export class Checker {
  readonly document: Document;
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true });

  constructor(document: Document) {
    this.document = document;
    this.ajv.addFormat('date-time', (text: string) => !Number.isNaN(Date.parse(text)));
    this.ajv.addSchema(document, 'document');
  }

  /** What is wrong with a value, by the path to it. */
  problems(value: unknown, schema: object): string[] {
    const text = JSON.stringify(schema).replaceAll('"#/components/', '"document#/components/');
    const isValid = this.ajv.compile(JSON.parse(text));
    return isValid(value)
      ? []
      : (isValid.errors ?? []).map(
          ({ instancePath, message, params }) =>
            `${instancePath} ${message} ${JSON.stringify(params)}`,
        );
  }

  /** What is wrong with an answer of a route, such as `POST /v1/runs/:id/cancel`. */
  answer(route: string, { status, headers, text }: Answer): string[] {
    const [method = '', path = ''] = route.split(' ');
    const { responses } = this.document.paths[templateOf(path)]?.[method.toLowerCase()] ?? {};
    if (responses === undefined) return [`${route} is not described`];
    const { content: ofType = {} } = responses[status] ?? (status >= 400 ? responses.default : {});
    const content = Object.fromEntries(
      Object.entries<Document>(ofType).map(([name, value]) => [bare(name), value]),
    );
    const type = bare(headers['content-type'] ?? '');
    if (text === '' && type === '') return content[type] === undefined ? [] : ['an empty answer'];
    const described = content[type] ?? content['*/*'];
    if (described === undefined) return [`${status} ${type} is not described`];
    if (described.schema === undefined) return [];
    return valuesOf(type, text).flatMap((value) => this.problems(value, described.schema));
  }
}

export function templateOf(path: string): string {
  return path.replace(/:(\w+)/g, '{$1}').replace(/\*$/, '{rest}');
}

/** The JSON values of an answer: one, one a line, or one an event. */
function valuesOf(type: string, text: string): unknown[] {
  if (type === 'application/x-ndjson')
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  if (type !== 'text/event-stream') return [JSON.parse(text)];
  return [...text.matchAll(/^data: (?!\[DONE\])(.*)$/gm)].map(([, data = '']) => JSON.parse(data));
}

/** A media type without its parameters. */
function bare(type: string): string {
  return type.split(';')[0] ?? '';
}
