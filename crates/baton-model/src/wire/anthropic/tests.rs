mod encoding;
mod reading;
