import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import type { SvcError } from '../errors.ts';

/**
 * An error as the status of a call. The details have the standard form, so that the libraries of
 * every language read them without a file of ours.
 */
export function statusOf(error: SvcError): StatusObject {
  const { message, spec, code, hint, retryable, param, waitMs } = error;
  const text = message.slice(0, MESSAGE_MAX).toWellFormed();
  // Several targets have no code of their own.
  const name = (code === 'targets_failed' ? OF_STATUS[error.http] : undefined) ?? spec.grpc;
  const number = status[name as keyof typeof status] ?? status.UNKNOWN;
  const metadata = new Metadata();
  const info = {
    reason: code.toUpperCase(),
    domain: 'svc',
    metadata: {
      code,
      hint: hint.slice(0, MESSAGE_MAX),
      retryable: String(retryable),
      ...(param === null ? {} : { param }),
    },
  };
  const parts = [packDetail('ErrorInfo', info)];
  if (waitMs !== null) parts.push(packDetail('RetryInfo', { retry_delay: durationOf(waitMs) }));
  metadata.set(
    'grpc-status-details-bin',
    encodeMessage('Status', { code: number, message: text, details: parts }),
  );
  return { code: number, details: text, metadata };
}

const OF_STATUS: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  429: 'RESOURCE_EXHAUSTED',
};

/** The messages in the details of a status, with the numbers of the standard. */
const { root } = protobuf.parse(
  `syntax = "proto3"; package google.rpc;
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }`,
  { keepCase: true },
);

function packDetail(name: string, fields: object): object {
  return { type_url: `type.googleapis.com/google.rpc.${name}`, value: encodeMessage(name, fields) };
}

function encodeMessage(name: string, fields: object): Buffer {
  const type = root.lookupType(`google.rpc.${name}`);
  return Buffer.from(type.encode(type.fromObject(fields)).finish());
}

function durationOf(ms: number): object {
  return { seconds: Math.floor(ms / 1000), nanos: Math.round((ms % 1000) * 1e6) };
}

/** Trailers have little room, and escapes make a text three times as long. */
const MESSAGE_MAX = 1000;
