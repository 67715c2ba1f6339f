import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import type { MediaPart } from '../contract/messages/parts.ts';
import { fileTypeOf, isBase64, mediaKind, mediaSignatures } from '../contract/options.ts';
import { asRecord, isRecord, parseForeignJson } from '../json.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { ToolResult } from '../ports/tools.ts';
import { cutBytes } from './tool-list.ts';

/**
 * The result of a call of a tool.
 *
 * A server that answers has carried out the call. So whatever form its answer has, it is a result:
 * what svc does not know is named, and the rest is used.
 */

/** The official client would refuse a result with one part that it does not know. */
export const anyResult = v.unknown();

type Bounds = Pick<Limits, 'mcp_result_bytes' | 'mcp_result_parts' | 'mcp_files_bytes'>;

export function resultOf(result: unknown, bounds: Bounds): ToolResult {
  const { content, structuredContent, isError } = asRecord(result);
  const { mcp_result_bytes, mcp_result_parts } = bounds;
  const parts = Array.isArray(content) ? content : [];
  const files = new Files(bounds);
  const texts = parts.slice(0, mcp_result_parts).map((part) => textOf(part, files));
  const rest = parts.length - texts.length;
  const isList = content == null || Array.isArray(content);
  if (!isList) texts.push(leftOutLine('the content is not a list, and'));
  if (rest > 0) texts.push(`[svc: ${rest} more parts were left out]`);
  const text = texts.join('\n');
  const isFull = Buffer.byteLength(text) > mcp_result_bytes;
  const more =
    isFull || structuredContent == null ? null : structuredText(structuredContent, texts);
  return {
    text: cutBytes(more === null ? text : [...texts, more].join('\n'), mcp_result_bytes),
    is_error: isError === true,
    ...(files.media.length === 0 ? {} : { media: files.media }),
  };
}

/** The images and sounds of a result, within its bound. */
class Files {
  readonly media: MediaPart[] = [];
  private readonly most: number;
  private bytes = 0;

  constructor({ mcp_files_bytes }: Bounds) {
    this.most = mcp_files_bytes;
  }

  /**
   * The line of the text that means a file. Its first bytes determine its type: a provider refuses
   * a request that names another type.
   */
  add(what: string, mimeType: unknown, data: unknown): string {
    const written = typeof data === 'string' ? data.replace(/\s+/g, '') : '';
    const facts = [shortName(mimeType), sizeOf(written)].filter(Boolean);
    const partName = `${what} (${facts.join(', ')})`;
    if (!isBase64(written)) return leftOutLine(what, 'its data is not base64');
    const media_type = fileTypeOf(written);
    if (media_type === null) return leftOutLine(partName, `models take ${TYPES}`);
    if (this.bytes + written.length > this.most)
      return leftOutLine(
        partName,
        `the files of the result have more than ${this.most} bytes as base64`,
      );
    this.bytes += written.length;
    this.media.push({ type: mediaKind(media_type), media_type, data: written });
    return `[file ${this.media.length}: ${media_type}, ${sizeOf(written)}]`;
  }
}

const TYPES = Object.keys(mediaSignatures).join(', ');

/**
 * Null: the text has it. Servers repeat the structured content as text, for clients that do not
 * know it. Some of them wrap a value that is not an object as `result`, with a text for each item.
 */
function structuredText(structured: unknown, texts: readonly string[]): string | null {
  const values = texts.map((text) => parseForeignJson(text) ?? text);
  const { result, ...others } = asRecord(structured);
  const isWrapped = result !== undefined && Object.keys(others).length === 0;
  const same = isWrapped ? [structured, result] : [structured];
  const isThere = [...values, values, ...(isWrapped ? texts : [])].some((value) =>
    same.some((one) => isDeepStrictEqual(value, one)),
  );
  return isThere ? null : JSON.stringify(structured);
}

function textOf(part: unknown, files: Files): string {
  const { type, text, data, mimeType, resource } = asRecord(part);
  if (typeof type !== 'string') return leftOutLine('a part without a type');
  const partName = `a part of type ${JSON.stringify(shortName(type))}`;
  switch (type) {
    case 'text':
      return typeof text === 'string' ? text : leftOutLine(partName, 'it has no text');
    case 'resource_link':
      return linkText(asRecord(part)) ?? leftOutLine(partName, 'it has no address');
    case 'resource':
      return isRecord(resource)
        ? resourceText(resource, files)
        : leftOutLine(partName, 'it has no content');
    case 'image':
    case 'audio':
      return files.add(partName, mimeType, data);
    default:
      return leftOutLine(partName);
  }
}

/** Null: it has no address. */
function linkText({ uri, name, mimeType, description }: Record<string, unknown>): string | null {
  if (typeof uri !== 'string') return null;
  const words = [uri, typeof name === 'string' ? JSON.stringify(name) : '', mimeType];
  const about = typeof description === 'string' ? `: ${shortName(description)}` : '';
  return `[link: ${words.map(shortName).filter(Boolean).join(' ')}${about}]`;
}

function resourceText(
  { uri, text, blob, mimeType }: Record<string, unknown>,
  files: Files,
): string {
  const title = `[resource: ${shortName(uri)}]`;
  if (typeof text === 'string') return `${title}\n${text}`;
  return `${title}\n${files.add('its content', mimeType, blob)}`;
}

function leftOutLine(what: string, why?: string): string {
  return `[svc: ${what} was left out${why === undefined ? '' : `: ${why}`}]`;
}

function sizeOf(base64: string): string {
  return `${Buffer.byteLength(base64, 'base64')} bytes`;
}

/** A name of the server in a line of svc. */
function shortName(value: unknown): string {
  return typeof value === 'string' ? oneLine(value).slice(0, NAME_MAX) : '';
}

const NAME_MAX = 1000;
