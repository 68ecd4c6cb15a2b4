/** What the tests of this folder say of types. */

/** Whether two types are the same: not only alike, `any` included. */
export type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** The public members of a class or interface, as a type that can be compared. */
export type Members<T> = { [K in keyof T]: T[K] };

/** The members that `T` has beside those of its base. */
export type Own<T, Base> = Members<Omit<T, keyof Base>>;

/** Compiles only for `true`. */
export declare function expect<T extends true>(): void;
