// What the tests use of Node's own modules.
declare module "node:test" {
  export function test(name: string, run: () => void | Promise<void>): void;
}

declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
}

declare module "node:assert/strict" {
  interface Assert {
    ok(value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(text: string, pattern: RegExp, message?: string): void;
    doesNotMatch(text: string, pattern: RegExp, message?: string): void;
    throws(run: () => void, expected?: RegExp | object): void;
    rejects(
      run: (() => Promise<unknown>) | Promise<unknown>,
      expected?: RegExp | object,
    ): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
