// The operators' API by the names the pages use. `schema.ts` is generated from the crate `api`
// (crates/api/openapi.json) before every build and check, and is not kept in the repository.

import type { components } from './schema';

type Schemas = components['schemas'];

export type Models = Schemas['Models'];
export type Model = Schemas['Model'];
export type ModelState = Schemas['ModelState'];
export type Throughput = Schemas['Throughput'];
export type Routing = Schemas['Routing'];
export type Leases = Schemas['Leases'];
export type PatchRouting = Schemas['PatchRouting'];
export type Replica = Schemas['Replica'];
export type ReplicaState = Schemas['ReplicaState'];
export type Requests = Schemas['Requests'];
export type Request = Schemas['Request'];
export type Route = Schemas['Route'];
export type Score = Schemas['Score'];
export type Conversations = Schemas['Conversations'];
export type Conversation = Schemas['Conversation'];
export type Stats = Schemas['Stats'];
export type Point = Schemas['Point'];
export type Keys = Schemas['Keys'];
export type Key = Schemas['Key'];
export type KeyLimits = Schemas['KeyLimits'];
export type Session = Schemas['Session'];
export type Alarm = Schemas['Alarm'];
export type WorkingSet = Schemas['WorkingSet'];
export type Gpus = Schemas['Gpus'];
export type RouteFigures = Schemas['RouteFigures'];
export type Mark = Schemas['Mark'];
export type HistoryState = Schemas['HistoryState'];
export type Hello = Schemas['Hello'];
export type Changed = Schemas['Changed'];
