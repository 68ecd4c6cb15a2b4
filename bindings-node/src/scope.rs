//! Scopes by their ids; JavaScript keeps the current one with the task.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use callweir::{CloseOptions, Error, Outcome, Propagation, Result, Scope, ScopeOptions};
use serde_json::{Value, json};

use crate::instance::{Instance, Local};
use crate::js::{NOTHING, Raw};
use crate::native::Arguments;
use crate::runtime::runtime_of;

/// Returns the scope at a place: that of an id, that of a task's call where the number is negative, or none.
pub(crate) fn scope_at(local: &Local, number: f64) -> Option<Scope> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ids are whole numbers, and the sign was looked at"
    )]
    if number > 0.0 {
        local.scopes.borrow().get(&(number as u64)).cloned()
    } else {
        local
            .tasks
            .borrow_mut()
            .get_mut(-number as u64)
            .and_then(|task| task.scope.clone())
    }
}

/// Returns the scope at the place that an argument names; the default is none.
pub(crate) fn given_scope(local: &Local, given: &Arguments<'_>, index: usize) -> Option<Scope> {
    scope_at(local, given.number_or_none(index).unwrap_or(0.0))
}

fn known(local: &Local, given: &Arguments<'_>, index: usize) -> Result<Scope> {
    given_scope(local, given, index).ok_or_else(|| Error::internal("no scope of this id"))
}

/// Keeps a scope for JavaScript and returns its id.
pub(crate) fn keep(local: &Local, scope: Scope) -> Raw {
    let id = local.new_id();
    local.scopes.borrow_mut().insert(id, scope);
    #[allow(clippy::cast_precision_loss, reason = "ids stay far below 2^53")]
    local.js.number(id as f64)
}

/// Reads a time in milliseconds since 1970.
pub(crate) fn timestamp(given: &Arguments<'_>, index: usize) -> Result<Option<SystemTime>> {
    let since = given.number_or_none(index).map(|milliseconds| {
        let wrong = |_| Error::invalid_argument("$.timestamp", "not a time after 1970");
        Duration::try_from_secs_f64(milliseconds / 1000.0).map_err(wrong)
    });
    Ok(since.transpose()?.map(|since| SystemTime::UNIX_EPOCH + since))
}

/// Reads flags, given as a JSON array of texts.
pub(crate) fn flags(given: &Arguments<'_>, index: usize) -> Result<Vec<Arc<str>>> {
    let Some(Value::Array(flags)) = given.json_or_none(index)? else {
        return Ok(Vec::new());
    };
    Ok(flags
        .iter()
        .filter_map(|flag| flag.as_str().map(Into::into))
        .collect())
}

/// Opens a scope: `(runtime, name, type, parent, input, metadata, attributes, data schema, timestamp)`.
pub(crate) fn open(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let options = ScopeOptions {
        input: given.json_or_none(4)?,
        metadata: given.json_or_none(5)?,
        attributes: flags(given, 6)?,
        data_schema: given.json_or_none(7)?,
        timestamp: timestamp(given, 8)?,
    };
    let parent = given_scope(local, given, 3);
    let scope = runtime.open_scope(given.text(1)?, given.text(2)?.parse()?, parent, options)?;
    Ok(keep(local, scope))
}

/// Closes a scope: `(scope, output, metadata, outcome, error, timestamp)`.
pub(crate) fn close(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let error = given
        .slot_or_none(4)
        .map(|slot| crate::error::from_thrown(local, slot));
    let by_error = error.as_ref().filter(|error| error.is_control()).map(Outcome::of);
    let outcome = given
        .text_or_none(3)
        .map(|outcome| outcome.parse::<Outcome>())
        .transpose()?;
    let options = CloseOptions {
        output: given.json_or_none(1)?,
        metadata: given.json_or_none(2)?,
        outcome: outcome.or(by_error),
        error_type: error.as_ref().map(Error::type_value),
        timestamp: timestamp(given, 5)?,
    };
    known(local, given, 0)?.close(options);
    Ok(NOTHING)
}

/// Tells what never changes about a scope, as JSON.
pub(crate) fn facts(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let scope = known(local, given, 0)?;
    let facts = json!({
        "uuid": scope.uuid().to_string(),
        "name": &**scope.name(),
        "type": scope.category().name(),
        "parentUuid": scope.parent_uuid().map(|id| id.to_string()),
    });
    Ok(local.js.text(&facts.to_string()))
}

/// Says whether a scope has not ended, as 1 or 0.
pub(crate) fn is_open(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    Ok(local
        .js
        .number(f64::from(u8::from(known(local, given, 0)?.is_open()))))
}

/// Returns what another process needs to continue under a scope, as JSON.
pub(crate) fn propagation(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let scope = known(local, given, 0)?;
    Ok(local.js.text(&scope.propagation().to_json().to_string()))
}

/// Makes a scope that stands for one of another process: `(runtime, JSON)`.
pub(crate) fn attach(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let from = Propagation::from_json(&given.json_or_none(1)?.unwrap_or_default())?;
    Ok(keep(local, runtime.attach(&from)))
}

/// Keeps the scope of a task's call, so that it outlives the task.
pub(crate) fn of_task(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    Ok(keep(local, known(local, given, 0)?))
}

/// Makes a scope that stands for a call that has ended: `(runtime, name, parent, seen, id...)`.
pub(crate) fn ended(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let mut id = [0_u8; 16];
    for (index, part) in id.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        #[allow(clippy::cast_possible_truncation, reason = "a part was 32 bits before")]
        let number = given.number_or_none(4 + index).unwrap_or(0.0) as i32;
        *part = number.to_be_bytes();
    }
    let seen = given.flag(3).then_some(id);
    let parent = given_scope(local, given, 2);
    Ok(keep(
        local,
        callweir::foreign::ended_call(&runtime, seen, given.text(1)?, parent),
    ))
}

/// Lets go of a scope that JavaScript no longer refers to.
pub(crate) fn forget(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let gone = local.scopes.borrow_mut().remove(&given.id(0)?);
    drop(gone);
    Ok(NOTHING)
}
