import type { PackageDefinition } from '@grpc/proto-loader';
import descriptor, {
  type IDescriptorProto,
  type IFileDescriptorProto,
} from 'protobufjs/ext/descriptor/index.js';

/**
 * Descriptors as `protoc` writes them. protobufjs names the entry of a map field after the field
 * alone, and writes no JSON names. It does not mark an optional field, and does not put its oneof
 * last. Strict readers, such as grpcurl, then refuse the whole file.
 */
export function strictDescriptors(definition: PackageDefinition): PackageDefinition {
  const entries = Object.entries(definition).map(([name, part]) => [
    name,
    hasFiles(part)
      ? { ...part, fileDescriptorProtos: part.fileDescriptorProtos.map(strictFile) }
      : part,
  ]);
  return Object.fromEntries(entries) as PackageDefinition;
}

type WithFiles = { fileDescriptorProtos: Buffer[] };

function hasFiles(part: object): part is WithFiles {
  return 'fileDescriptorProtos' in part && Array.isArray(part.fileDescriptorProtos);
}

function strictFile(bytes: Buffer): Buffer {
  const file = descriptor.FileDescriptorProto.decode(bytes);
  for (const message of (file as IFileDescriptorProto).messageType ?? []) correct(message);
  return Buffer.from(descriptor.FileDescriptorProto.encode(file).finish());
}

function correct(message: IDescriptorProto): void {
  for (const field of message.field ?? []) {
    const name = field.name ?? '';
    const entry = message.nestedType?.find(
      (nested) => nested.options?.mapEntry === true && nested.name === field.typeName,
    );
    if (entry !== undefined) {
      entry.name = `${capitalise(camelCase(name))}Entry`;
      field.typeName = entry.name;
    }
    field.jsonName = camelCase(name);
  }
  correctOptionals(message);
  for (const nested of message.nestedType ?? []) correct(nested);
}

/** The oneof of an optional field has this field alone, and its name after an underscore. */
function correctOptionals(message: IDescriptorProto): void {
  const { oneofDecl = [], field: fields = [] } = message;
  const isOptional = ({ name }: { name?: string }, index: number) =>
    fields.some((field) => field.oneofIndex === index && `_${field.name}` === name);
  const order = [
    ...oneofDecl.filter((each, index) => !isOptional(each, index)),
    ...oneofDecl.filter(isOptional),
  ];
  for (const field of fields) {
    if (field.oneofIndex === undefined || !Object.hasOwn(field, 'oneofIndex')) continue;
    const oneof = oneofDecl[field.oneofIndex];
    if (oneof === undefined) continue;
    if (`_${field.name}` === oneof.name) Object.assign(field, { proto3Optional: true });
    field.oneofIndex = order.indexOf(oneof);
  }
  message.oneofDecl = order;
}

/** As `protoc` does: an underscore goes, and the next letter becomes a capital. */
function camelCase(name: string): string {
  return name.replace(/_+(.?)/g, (_, letter: string) => letter.toUpperCase());
}

function capitalise(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
