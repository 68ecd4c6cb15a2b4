//! JavaScript values as payloads: by their place in the table, with JSON copies only for who reads them.

mod exact;

use std::any::Any;
use std::sync::Arc;

use callweir::foreign::HostValue;
use callweir::{Error, Json, Payload, Result};
use parking_lot::Mutex;
use serde_json::Value;

use crate::foreign::How;
use crate::instance::{Instance, Lent, Local, Shared};

pub(crate) use exact::{is_plain_text, marked};

/// A place of the table, freed when nobody refers to it any more.
pub(crate) struct Slot {
    instance: Arc<Instance>,
    place: u32,
}

impl Slot {
    /// Takes over a place that JavaScript filled.
    pub(crate) fn new(instance: &Arc<Instance>, place: u32) -> Self {
        Self {
            instance: instance.clone(),
            place,
        }
    }

    /// Takes over a place given as a number; nothing for a negative one.
    pub(crate) fn take(instance: &Arc<Instance>, number: f64) -> Option<Self> {
        as_place(number).map(|place| Self::new(instance, place))
    }

    pub(crate) fn place(&self) -> f64 {
        f64::from(self.place)
    }

    /// Returns the place as a whole number.
    pub(crate) fn number(&self) -> u64 {
        u64::from(self.place)
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.instance.free(self.place);
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number was checked to be a place"
)]
fn as_place(number: f64) -> Option<u32> {
    (0.0..=f64::from(u32::MAX))
        .contains(&number)
        .then_some(number as u32)
}

/// What stands for no value where a place is expected.
pub(crate) const NO_PLACE: f64 = -1.0;

/// The runtime's converter for values that JSON has no form for.
pub(crate) type Default = Arc<Converter>;

/// A converter that can be set while payloads refer to it.
#[derive(Default)]
pub(crate) struct Converter(Mutex<Option<Arc<Slot>>>);

impl Converter {
    pub(crate) fn set(&self, function: Option<Slot>) {
        let old = std::mem::replace(&mut *self.0.lock(), function.map(Arc::new));
        drop(old);
    }

    fn get(&self) -> Option<Arc<Slot>> {
        self.0.lock().clone()
    }
}

/// A JavaScript value as a payload.
pub(crate) struct Object {
    pub(crate) slot: Slot,
    default: Default,
}

impl Object {
    /// Wraps a value.
    pub(crate) fn payload(slot: Slot, default: &Default) -> Payload {
        Payload::Host(Arc::new(Self {
            slot,
            default: default.clone(),
        }))
    }
}

impl HostValue for Object {
    fn to_json(&self) -> Result<Json> {
        let local = self.slot.instance.here()?;
        let default = self.default.get();
        let default = default.as_ref().map_or(NO_PLACE, |slot| slot.place());
        let arguments = [local.js.number(self.slot.place()), local.js.number(default)];
        let text = local
            .call_for_text(Lent::Stringify, &arguments)
            .ok_or_else(crate::error::unable)?;
        if local.get(Shared::How) == How::Thrown as i32 {
            let (path, why): (String, String) = serde_json::from_str(&text).unwrap_or_default();
            return Err(Error::not_json(path, why));
        }
        Ok(Json::from_text(text))
    }

    fn isolate(&self) -> Result<Payload> {
        let local = self.slot.instance.here()?;
        let copy = local
            .call_with(Lent::Isolate, &[self.slot.place()])
            .ok_or_else(crate::error::unable)?;
        let slot = Slot::take(&self.slot.instance, copy).ok_or_else(crate::error::unable)?;
        Ok(Self::payload(slot, &self.default))
    }

    fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool {
        let Some(local) = self.slot.instance.local() else {
            return false;
        };
        let text = local.call_for_text(Lent::Keys, &[local.js.number(self.slot.place())]);
        let keys: Option<Vec<String>> = text.and_then(|text| serde_json::from_str(&text).ok());
        keys.map(|keys| keys.iter().for_each(|key| visit(key))).is_some()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The place of a payload's value, for the length of a call into JavaScript.
pub(crate) enum Held<'a> {
    Own(&'a Slot),
    Made(Slot),
}

impl Held<'_> {
    pub(crate) fn place(&self) -> f64 {
        match self {
            Self::Own(slot) => slot.place(),
            Self::Made(slot) => slot.place(),
        }
    }
}

/// Returns the place of a payload: of the very value, or of one made from JSON.
pub(crate) fn held<'a>(instance: &Arc<Instance>, local: &Local, payload: &'a Payload) -> Result<Held<'a>> {
    match payload {
        Payload::Host(value) => match value.as_any().downcast_ref::<Object>() {
            Some(object) if Arc::ptr_eq(object.slot.instance(), instance) => Ok(Held::Own(&object.slot)),
            _ => of_json(instance, local, &value.to_json()?).map(Held::Made),
        },
        Payload::Json(value) => of_json(instance, local, value).map(Held::Made),
    }
}

/// Puts the value of a copy into the table; one that JavaScript wrote it can read.
fn of_json(instance: &Arc<Instance>, local: &Local, json: &Json) -> Result<Slot> {
    match json.text().filter(|text| exact::is_plain_text(text)) {
        Some(text) => parsed(instance, local, text),
        None => made(instance, local, json),
    }
}

/// Puts the value of JSON into the table.
fn made(instance: &Arc<Instance>, local: &Local, value: &Value) -> Result<Slot> {
    parsed(instance, local, &marked(value))
}

fn parsed(instance: &Arc<Instance>, local: &Local, text: &str) -> Result<Slot> {
    let place = local.call_for_number(Lent::Parse, &[local.js.text(text)])?;
    Slot::take(instance, place).ok_or_else(crate::error::unable)
}

/// Makes the payload of JSON text that has been parsed; a number that JavaScript cannot hold is refused.
pub(crate) fn from_text(instance: &Arc<Instance>, value: &Value, default: &Default) -> Result<Payload> {
    if let Some(path) = exact::beyond(value) {
        return Err(Error::invalid_argument(
            path,
            "the number does not fit a JavaScript number",
        ));
    }
    let slot = made(instance, instance.here()?, value)?;
    Ok(Object::payload(slot, default))
}
